"""Risk in words: the power of an attacker who knows all rows but those of one person (proofs.md P25).

The attacker tests a claim about the person: under replace anything about her rows, under add-remove that they are
there. Of false claims a share f passes, of true ones at most T(f), the least of the trade-off curves of epsilon and
delta, of mu and of rho. Every figure is a bound, and none is ever rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.composition import mu_squared_of, rho_of
from dpgraph.privacy.display import short, summary
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import DIGITS
from dpgraph.privacy.records import Event, Number, PrivacyCost, PrivacyUnit, Provenance, Release, exact

#: The shares of false claims that pass, and the suspicions before, that sentences and pages speak of.
FALSE, PRIORS = (Fraction(1, 100), Fraction(1, 20)), (Fraction(1, 10), Fraction(1, 1000))


@dataclass(frozen=True, repr=False)
class Risk:
    """The most that a promise leaves to an attacker who knows everything but one person's rows.

    ``mu_squared`` is the square of a mu and ``rho`` a rho that are proved beside epsilon and delta; None where none is.

    >>> print(Risk.of(PrivacyCost(Fraction(1))))
    An attacker who knows all other rows and tests claims about one person's row finds at most 2.72 % of the true \
claims where 1 % of the false ones pass; a suspicion of 1 in 10 rises to at most 23.2 % among the claims that pass.
    """

    epsilon: Fraction
    delta: Fraction
    unit: PrivacyUnit
    mu_squared: Fraction | None = None
    rho: Fraction | None = None

    @classmethod
    def of(
        cls, value: Event | PrivacyCost | Release[Any] | Provenance | Budget, unit: PrivacyUnit | None = None
    ) -> Risk:
        """The risk of an event, a cost, a release or its record, or of a budget once all of it is spent.

        Args:
            value: The promise; a release and a budget have a unit of their own.
            unit: Whom an event or a cost protects; one replaced row by default.

        Raises:
            ReleaseError: If the value is none of these, or a release whose noise came from a seed.
        """
        match value:
            case Event():
                return cls(value.epsilon, value.delta, checked_unit(unit), mu_squared_of(value), rho_of(value))
            case PrivacyCost():
                return cls(value.epsilon, value.delta, checked_unit(unit))
            case Budget():
                return cls(value.epsilon, value.delta, value.unit, value.mu and value.mu**2, value.rho)
            case Release() | Provenance():
                if not value.private:
                    raise ReleaseError("the noise of this release came from a seed, and whoever knows it finds out all")
                return cls.of(value.event, value.unit)
        raise ReleaseError(f"a risk is of an Event, a PrivacyCost, a Release or a Budget; got {type(value).__name__}")

    def true_claims(self, false_claims: Number) -> float:
        """The largest share of true claims that pass a test which lets a share of the false ones pass.

        >>> Risk.of(PrivacyCost(Fraction(1), Fraction(1, 1000))).true_claims(0)
        0.001
        """
        import mpmath as m

        passed = _share(false_claims, "false_claims")
        with m.workdps(DIGITS + len(str(passed.denominator))):
            f, epsilon, delta = map(_mpf, (passed, self.epsilon, self.delta))
            most = [delta + m.exp(epsilon) * f, m.exp(-epsilon) * (delta + f) - m.expm1(-epsilon)]
            if self.mu_squared is not None:
                most.append(m.ncdf(m.sqrt(_mpf(self.mu_squared)) + m.sqrt(2) * m.erfinv(2 * f - 1)))
            if self.rho is not None:
                root, rare, common = m.sqrt(_mpf(self.rho)), m.sqrt(-m.log(f)), m.sqrt(-m.log1p(-f))
                most += [m.exp(-(max(rare - root, 0) ** 2)), -m.expm1(-((common + root) ** 2))]
            return _up(min(*most, f + self._advantage()))

    @property
    def advantage(self) -> float:
        """The largest difference between the shares of true and of false claims that pass, whatever the test."""
        import mpmath as m

        with m.workdps(DIGITS):
            return _up(self._advantage())

    def _advantage(self) -> Any:
        import mpmath as m

        epsilon, delta = _mpf(self.epsilon), _mpf(self.delta)
        most = [m.tanh(epsilon / 2) + 2 * delta / (m.exp(epsilon) + 1)]
        if self.mu_squared is not None:
            most.append(m.erf(m.sqrt(_mpf(self.mu_squared) / 8)))
        if self.rho is not None:
            rho = _mpf(self.rho)
            most += [m.sqrt(rho / 2), m.sqrt(-m.expm1(-rho))]
        return min(most)

    def suspicion(self, prior: Number, false_claims: Number = FALSE[0]) -> float:
        """The largest share of the claims that pass which are true, where a share ``prior`` of all claims is.

        It is the positive predictive value of the best test of which ``false_claims`` of the false claims pass; a test
        that lets fewer pass may be surer of those few.
        """
        before, false = _share(prior, "prior"), _share(false_claims, "false_claims")
        true = before * Fraction(self.true_claims(false))
        return _up(true / (true + (1 - before) * false)) if true else 0.0

    def suspicion_after_any(self, prior: Number) -> float:
        """The largest probability of a claim after any one outcome; 1 with a delta, where no outcome has a bound."""
        import mpmath as m

        before = _share(prior, "prior")
        if self.delta or before == 1:
            return 1.0 if before else 0.0
        with m.workdps(DIGITS):
            odds = m.exp(_mpf(self.epsilon)) * _mpf(before / (1 - before))
            return _up(odds / (1 + odds))

    def curve(self) -> list[tuple[float, float]]:
        """Shares of false and of true claims that pass, from 0 to 1; a test that knows nothing is on the diagonal."""
        return [(float(f), self.true_claims(f)) for f in (Fraction(i, 100) for i in range(101))]

    def facts(self) -> list[tuple[str, str]]:
        """The figures with their names, for tables."""
        found = [(f"true claims found at {percent(f)} false alarms", self.true_claims(f)) for f in FALSE]
        found.append(("largest difference of the two", self.advantage))
        found += [(f"true among claims that pass, if 1 in {1 / p} was", self.suspicion(p)) for p in PRIORS]
        if not self.delta:
            found += [(f"after any outcome, 1 in {1 / p} becomes", self.suspicion_after_any(p)) for p in PRIORS]
        return [(name, f"at most {percent(share)}") for name, share in found]

    @property
    def assumption(self) -> str:
        """The assumptions behind the figures."""
        many = self.unit.rows_per_person
        rows = "one row" if many == 1 else f"up to {many} rows"
        return (
            f"This supposes that a person has {rows}, and that the attacker knows all other rows, the code and the law "
            "of the noise. Other releases of the same rows add to it. False alarms are false claims that pass; figures "
            f"of claims that pass are for {percent(FALSE[0])} of false alarms."
        )

    def __str__(self) -> str:
        many, public = self.unit.rows_per_person > 1, self.unit.n_is_public
        rows = f"the up to {self.unit.rows_per_person} rows of one person" if many else "one person's row"
        claims = f"about {rows}" if public else f"that {rows} {'are' if many else 'is'} in the data"
        (false, _), (prior, _) = FALSE, PRIORS
        found, sure = percent(self.true_claims(false)), percent(self.suspicion(prior))
        return (
            f"An attacker who knows all other rows and tests claims {claims} finds at most {found} of the "
            f"true claims where {percent(false)} of the false ones pass; a suspicion of 1 in {1 / prior} rises to at "
            f"most {sure} among the claims that pass."
        )

    def __repr__(self) -> str:
        advantage = f"advantage at most {percent(self.advantage)}"
        return summary("Risk", PrivacyCost(self.epsilon, self.delta), f"protecting {self.unit}", advantage)


def percent(share: Fraction | float) -> str:
    """A share in percent to three digits, never rounded down."""
    value = Fraction(share)
    digits = Context(prec=3, rounding=ROUND_CEILING).divide(Decimal(100 * value.numerator), Decimal(value.denominator))
    text = f"{digits:f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def _share(value: Number, name: str) -> Fraction:
    share = exact(value, name, zero=True)
    if share > 1:
        raise ReleaseError(f"{name} must be a share between 0 and 1; got {short(value)}")
    return share


def _mpf(value: Fraction) -> Any:
    import mpmath

    return mpmath.mpf(value.numerator) / value.denominator


def _up(value: Any) -> float:
    """A float that is never below a number of mpmath, whose guard digits may be wrong, or a fraction; at most 1."""
    near = float(value)
    return min(1.0, near if near >= value + value / 10**30 else math.nextafter(near, math.inf))
