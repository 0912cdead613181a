"""What a user may say about the stages, declared once: the settings, the profiles, and how they are read."""
