"""The settings of the stages, declared once, the profiles, and how they are read."""
