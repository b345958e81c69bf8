"""What a report says, one module per subject: its tables, its charts and its sentences."""
