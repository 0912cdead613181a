"""What all tests share."""

from hypothesis import settings

# Machines that run tests are shared and slow at times: an example's time is no property of the code.
settings.register_profile("shared", deadline=None)
settings.load_profile("shared")
