"""Settings of every test: a busy machine is no reason for a property to fail.

``pytest --hypothesis-profile=repeated`` tries the same examples in every run; planted faults die by it or never.
"""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.register_profile("repeated", deadline=None, derandomize=True, database=None)
settings.load_profile("patient")
