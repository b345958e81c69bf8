"""The model of a plan, and how one is read, checked, expanded and ordered. Nothing here starts a server or a load."""
