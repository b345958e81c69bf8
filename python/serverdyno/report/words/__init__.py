"""What is said of the figures in sentences: warnings, summary, findings, methodology, disclosure."""
