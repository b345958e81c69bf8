"""What stands in the sections of a report: the tables and the data of the drawings, a module a subject."""
