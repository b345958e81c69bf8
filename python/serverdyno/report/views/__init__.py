"""Views of a finished report: HTML, terminal, PDF, Markdown, JSON, CSV and charts. They compute nothing."""
