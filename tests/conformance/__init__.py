"""What tests the reference servers by the programs of others; a person starts it."""
