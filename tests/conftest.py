"""Settings of every test: neither a busy machine nor an unlucky example is a reason to fail.

A property is tried on the same examples in every run; ``make search`` tries new ones, and ten times as many. Planted
faults are tried on those of every run, and what they break is not made smaller.
"""

from hypothesis import HealthCheck, Phase, settings

UNHURRIED = [HealthCheck.too_slow]  # it reads a clock

settings.register_profile("repeated", deadline=None, derandomize=True, database=None, suppress_health_check=UNHURRIED)
settings.register_profile("search", deadline=None, max_examples=1_000, suppress_health_check=UNHURRIED)
settings.register_profile(
    "planted", settings.get_profile("repeated"), phases=set(Phase) - {Phase.shrink, Phase.explain}
)
settings.load_profile("repeated")
