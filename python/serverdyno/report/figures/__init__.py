"""What follows from the records in numbers: nothing here is worded or drawn."""
