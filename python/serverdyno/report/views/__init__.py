"""Views of a finished report: HTML, terminal, PDF, Markdown, JSON, CSV, charts. They lay out and compute nothing."""
