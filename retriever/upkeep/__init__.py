"""What keeps an index well: the doctor, and the repair."""
