"""What keeps an index well: export and import, the doctor, and the repair."""
