"""A family, a noise law and two mechanisms written outside the package, used through its public verbs.

The family is what customers of a shop buy: of each purchase one of declared kinds, and its price, cut to a public cap.
Everything above the tests uses ``dg`` and ``dg.extension`` alone, as a package of somebody else would.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import dpgraph as dg
from dpgraph import extension as ext
from tests.files.edits import edited

# --- the family: what is public, what is sensitive, what is released, what is fitted


@dataclass(frozen=True)
class Purchases:
    """How often each kind is bought, and what is spent in all, a purchase counting at most ``cap``."""

    kinds: tuple[str, ...]
    cap: int

    def blocks(self, unit: dg.PrivacyUnit) -> tuple[ext.Block, ...]:
        """Each purchase is of one kind; its price is from 0 to the cap, so one more or another moves the sum by it."""
        moved = self.cap * unit.rows_per_person
        return (
            ext.Block(("kind",), (len(self.kinds),), ext.partition_movement(len(self.kinds), unit)),
            ext.Block(("spent",), (1,), ext.Movement(moved, moved**2)),
        )

    def noisy(self, values: Any, laws: Any, n: int | None, unit: dg.PrivacyUnit) -> NoisyPurchases:
        return NoisyPurchases(self, ext.FrozenMap(values), ext.FrozenMap(laws), n)


@dataclass(frozen=True, eq=False)
class PurchaseSums:
    """The exact sums: sensitive."""

    description: Purchases
    sensitive_kinds: Any
    sensitive_spent: int

    def __add__(self, other: PurchaseSums) -> PurchaseSums:
        assert other.description == self.description
        both = self.sensitive_kinds + other.sensitive_kinds, self.sensitive_spent + other.sensitive_spent
        return PurchaseSums(self.description, *both)

    @property
    def sensitive_rows(self) -> int:
        return int(self.sensitive_kinds.sum())

    def sensitive_block(self, name: tuple[str, ...], unit: dg.PrivacyUnit) -> Any:
        return self.sensitive_kinds if name == ("kind",) else np.array([self.sensitive_spent], np.int64)

    def __repr__(self) -> str:
        return "PurchaseSums(sensitive)"

    def __reduce__(self) -> Any:
        raise TypeError("sensitive")


def purchases(rows: Any, description: Purchases) -> PurchaseSums:
    """One pass over (kind, price) pairs."""
    codes = [description.kinds.index(kind) for kind, _ in rows]
    counts = np.bincount(np.array(codes, np.int64), minlength=len(description.kinds))
    return PurchaseSums(description, counts, sum(min(max(price, 0), description.cap) for _, price in rows))


@dataclass(frozen=True)
class NoisyPurchases:
    """What was released: public."""

    description: Purchases
    values: ext.FrozenMap[Any, Any]
    laws: ext.FrozenMap[Any, Any]
    n: int | None


@dataclass(frozen=True)
class Shop:
    """A model: the share of each kind, and the mean price."""

    description: Purchases
    shares: tuple[float, ...]
    price: float
    provenance: ext.Provenance | None = None


def fit(release: dg.Release[NoisyPurchases]) -> Shop:
    noisy = release.value
    kinds = np.maximum(noisy.values["kind",], 0) + 0.5
    n = max(1.0, float(noisy.n or kinds.sum()))
    return Shop(
        noisy.description,
        tuple((kinds / kinds.sum()).tolist()),
        float(noisy.values["spent",][0]) / n,
        release.provenance,
    )


# --- a mechanism with a known law: the first block of any description, networks included


@dataclass(frozen=True)
class NoisyBlock:
    """One block of what a description describes, with noise."""

    description: Any
    values: ext.FrozenMap[Any, Any]
    law: Any


@dataclass(frozen=True)
class FirstBlock:
    """Laplace noise on the first block alone, of scale l1 / epsilon: epsilon-DP, whatever is described."""

    epsilon: Any

    def event(self, description: Any, unit: dg.PrivacyUnit) -> ext.Event:
        block, epsilon = description.blocks(unit)[0], ext.exact(self.epsilon)
        law = ext.DiscreteLaplace(ext.calibrated_scale(max(1, block.movement.l1), epsilon))
        return ext.Event("FirstBlock", epsilon, measurements=(measured(block, law),))

    def randomise(self, statistics: Any, unit: dg.PrivacyUnit, noise: ext.Noise) -> NoisyBlock:
        (plan,) = self.event(statistics.description, unit).measurements
        true = statistics.sensitive_block(plan.table, unit)
        noisy = noise.add(true.ravel(), plan.law).reshape(true.shape)
        return NoisyBlock(statistics.description, ext.FrozenMap({plan.table: noisy}), plan.law)


def measured(block: ext.Block, law: Any) -> ext.Measurement:
    return ext.Measurement(block.name, block.cells, law, block.movement)


# --- a new noise law, and a mechanism that uses it


@dataclass(frozen=True)
class MixedLaplace:
    """Discrete Laplace noise whose scale a fair coin chooses anew for each block: long tails, a narrow middle.

    The coin does not depend on the rows, so a draw costs at most what it costs where the coin is known: the log ratio
    is at most ||d||_1 / narrow, and the zero-concentrated loss that of the narrow law.
    """

    narrow: float
    wide: float
    sums_to_zero: ClassVar[bool] = False

    @property
    def scale(self) -> float:
        return self.narrow

    def epsilon(self, l1: int | Fraction) -> Fraction:
        return ext.DiscreteLaplace(self.narrow).epsilon(l1)

    def rho(self, movement: ext.Movement) -> Fraction:
        return ext.DiscreteLaplace(self.narrow).rho(movement)

    def reach(self, draws: int, nats: float) -> float:
        return ext.DiscreteLaplace(self.wide).reach(draws, nats)

    def variance(self, cells: int) -> float:
        return sum(ext.DiscreteLaplace(scale).variance(cells) for scale in (self.narrow, self.wide)) / 2

    def add_to(self, values: Any, noise: ext.Noise) -> Any:
        return noise.add(values, ext.DiscreteLaplace(self.wide if noise.bits(1) else self.narrow))


@dataclass(frozen=True)
class MixedMechanism:
    """All blocks of a description with ``MixedLaplace`` noise of one narrow scale, sum of l1 / epsilon."""

    epsilon: Any
    claimed: int = 1  # what a wrong proof would divide the movement by

    def event(self, description: Any, unit: dg.PrivacyUnit) -> ext.Event:
        blocks, epsilon = description.blocks(unit), ext.exact(self.epsilon)
        scale = ext.calibrated_scale(max(1, sum(block.movement.l1 for block in blocks)), epsilon)
        law = MixedLaplace(scale, 4 * scale)
        return ext.Event("MixedMechanism", epsilon, measurements=tuple(measured(block, law) for block in blocks))

    def randomise(self, statistics: Any, unit: dg.PrivacyUnit, noise: ext.Noise) -> Any:
        plan = self.event(statistics.description, unit).measurements
        values = {}
        for m in plan:
            true = statistics.sensitive_block(m.table, unit)
            law = MixedLaplace(m.law.scale / self.claimed, 4 * m.law.scale / self.claimed)
            values[m.table] = noise.add(true.ravel(), law).reshape(true.shape)
        laws = ext.FrozenMap((m.table, m.law) for m in plan)
        n = statistics.sensitive_rows if unit.n_is_public else None
        return ext.noisy_value(statistics.description, ext.FrozenMap(values), laws, n, unit)


# --- files, and how the records of the two mechanisms are made again


def plain_purchases(description: Purchases) -> dict[str, Any]:
    return {"kinds": list(description.kinds), "cap": description.cap}


def purchases_of(plain: dict[str, Any], *_: Any) -> Purchases:
    return Purchases(tuple(plain["kinds"]), plain["cap"])


def plain_noisy(noisy: NoisyPurchases) -> dict[str, Any]:
    entries = [
        {"name": list(name), "values": values.tolist(), "law": ext.plain_law(noisy.laws[name])}
        for name, values in noisy.values.items()
    ]
    return {"n": noisy.n, "blocks": entries}


def noisy_of(plain: dict[str, Any], description: Purchases, provenance: ext.Provenance) -> NoisyPurchases:
    values = {tuple(entry["name"]): ext.integers_of(entry["values"]) for entry in plain["blocks"]}
    laws = {tuple(entry["name"]): ext.law_of(entry["law"]) for entry in plain["blocks"]}
    if laws != {m.table: m.law for m in provenance.event.measurements}:
        raise dg.errors.ReleaseError("the blocks are not those the event measured")
    return NoisyPurchases(description, ext.FrozenMap(values), ext.FrozenMap(laws), plain["n"])


def plain_block(noisy: NoisyBlock) -> dict[str, Any]:
    ((name, values),) = noisy.values.items()
    return {"name": list(name), "values": values.tolist(), "law": ext.plain_law(noisy.law)}


def block_of(plain: dict[str, Any], description: Any, provenance: ext.Provenance) -> NoisyBlock:
    (measurement,) = provenance.event.measurements
    values = ext.integers_of(plain["values"])
    law = ext.law_of(plain["law"])
    if (tuple(plain["name"]), values.size, law) != (measurement.table, measurement.cells, measurement.law):
        raise dg.errors.ReleaseError("the block is not the one the event measured")
    return NoisyBlock(description, ext.FrozenMap({measurement.table: values}), law)


def plain_shop(shop: Shop) -> dict[str, Any]:
    return {"shares": list(shop.shares), "price": shop.price}


def shop_of(plain: dict[str, Any], description: Purchases, provenance: ext.Provenance | None) -> Shop:
    return Shop(description, tuple(plain["shares"]), plain["price"], provenance)


ext.register_codecs(
    ext.Codec("description", "purchases", Purchases, plain_purchases, purchases_of),
    ext.Codec("released", "noisy-purchases", NoisyPurchases, plain_noisy, noisy_of),
    ext.Codec("released", "noisy-block", NoisyBlock, plain_block, block_of),
    ext.Codec("fitted", "shop", Shop, plain_shop, shop_of),
)
ext.register_law("mixed-laplace", MixedLaplace)
ext.register_mechanism("FirstBlock", lambda event, unit, what: FirstBlock(event.epsilon).event(what, unit))
ext.register_mechanism("MixedMechanism", lambda event, unit, what: MixedMechanism(event.epsilon).event(what, unit))


@ext.check_total.register
def _check_kinds(noisy: NoisyPurchases) -> None:
    if noisy.n is not None:
        away = abs(int(noisy.values["kind",].sum()) - noisy.n)
        if away > noisy.laws["kind",].reach(len(noisy.description.kinds), 101 * math.log(2)):
            raise dg.errors.ReleaseError("n is not the number of purchases behind the noisy numbers")


# --- the tests

SHOP = Purchases(("bread", "milk", "beer"), cap=3)
ROWS = [("bread", 2), ("milk", 9), ("beer", 1), ("milk", -4)] * 20
NETWORK = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
UNITS = [dg.PrivacyUnit(relation, rows) for relation in ("replace", "add-remove") for rows in (1, 2)]
MECHANISMS = {
    "first block": FirstBlock("0.7"),
    "mixed": MixedMechanism("0.7"),
    "laplace": dg.LaplaceMechanism("0.7"),
    "independent": dg.LaplaceMechanism("0.7", noise="independent"),
    "gaussian": dg.GaussianMechanism("0.7", "1e-6"),
}


def released(mechanism, rows=ROWS, unit=UNITS[0], **settings):
    budget = dg.Budget(100, "1e-3", unit=unit)
    return dg.release(purchases(rows, SHOP), mechanism, budget=budget, **settings)


def neighbours(unit):
    """All pairs of small data sets that differ in one person: each kind, and prices at and inside the bounds."""
    rows = list(itertools.product(SHOP.kinds, (0, 1, SHOP.cap)))
    persons = [[row] * unit.rows_per_person for row in rows]
    if unit.rows_per_person > 1:
        persons += [[("bread", 0), ("milk", 3)], [("beer", 1), ("beer", 3)]]
    for rest in ([], [("milk", 1)]):
        if unit.n_is_public:
            yield from ((rest + one, rest + other) for one, other in itertools.combinations(persons, 2))
        else:
            yield from ((rest + one, rest) for one in persons)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", MECHANISMS)
def test_the_largest_loss_over_all_neighbours_is_the_claim(name, unit):
    """The new law is opened into the calls it makes, so its loss is computed, not taken from what it says of itself."""
    mechanism, scripts = MECHANISMS[name], 2 if name == "mixed" else 1
    largest = max(
        dg.audit.privacy_loss(mechanism, purchases(one, SHOP), purchases(other, SHOP), unit=unit, scripts=scripts).share
        for one, other in neighbours(unit)
    )
    assert 0.99999 <= largest <= 1


def test_the_page_on_extending_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[1] / "docs" / "extending.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    code = "\n".join(blocks).replace('"purchases"', '"purchases of the page"')
    exec(compile(code, "extending.md", "exec", dont_inherit=True), {"__name__": "page"})


def test_a_wrong_proof_is_found():
    """Noise of half the scale that the event says: the law says what it costs, the calls it makes say otherwise."""
    one, other = (purchases([(kind, price)], SHOP) for kind, price in (("bread", 0), ("milk", 3)))
    assert dg.audit.privacy_loss(MixedMechanism("0.7", claimed=2), one, other, scripts=4).share > 1.9


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_a_claim_below_the_cost_of_a_new_law_is_refused(unit):
    event = MixedMechanism(1).event(SHOP, unit)
    with pytest.raises(dg.errors.ReleaseError, match="its noise costs epsilon"):
        replace(event, epsilon=event.epsilon * Fraction(99, 100))
    with pytest.raises(dg.errors.ReleaseError, match="its noise costs rho"):
        replace(event, rho=Fraction(1, 10**6))


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_goes_through_the_one_door(name):
    """Secure noise, an exact charge, and n only where it is public."""
    for unit in UNITS:
        budget = dg.Budget(1, "1e-6", unit=unit)
        made = dg.release(purchases(ROWS, SHOP), MECHANISMS[name], budget=budget)
        assert made.private
        assert budget.spent == Fraction("0.7")
        with pytest.raises(dg.errors.BudgetExceededError):
            dg.release(purchases(ROWS, SHOP), MECHANISMS[name], budget=budget)
        if name != "first block":
            assert (made.value.n is not None) == unit.n_is_public
            assert made.value.values["kind",].shape == (3,)


def test_noise_that_sums_to_zero_is_used_where_the_total_is_public_only():
    public, private = (released(dg.LaplaceMechanism(1), unit=unit).value for unit in (UNITS[0], UNITS[2]))
    assert [type(law) for law in public.laws.values()] == [ext.SumZeroLaplace, ext.DiscreteLaplace]
    assert public.values["kind",].sum() == public.n == len(ROWS)
    assert {type(law) for law in private.laws.values()} == {ext.DiscreteLaplace}


@pytest.mark.parametrize(
    "mechanism",
    [
        dg.FourierMechanism(1),
        dg.PosteriorSample(1),
        dg.MapEstimate(1),
        dg.papers.GibbsSample(1, 2),
        dg.PrivateQuantile(1, "0.5", (0, 1)),
        dg.papers.RegressionSample(1, idealized_numerics=True),
        dg.LaplaceMechanism(1, tables="families"),
        dg.GaussianMechanism(1, "1e-6", basis="residual"),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_what_cannot_measure_it_refuses_it_uncharged(mechanism):
    budget = dg.Budget(10, "1e-3", unit=dg.PrivacyUnit("add-remove"))
    with pytest.raises(
        dg.errors.ReleaseError, match=r"counts of a network|counts on mechanism|moments of a regression"
    ):
        dg.release(purchases(ROWS, SHOP), mechanism, budget=budget)
    assert not budget.events


def test_a_description_that_gives_noisy_integers_no_meaning_is_refused_uncharged():
    @dataclass(frozen=True)
    class Unreadable:
        def blocks(self, unit):
            return SHOP.blocks(unit)

    budget = dg.Budget(1)
    with pytest.raises(dg.errors.ReleaseError, match="needs a method noisy"):
        dg.release(replace(purchases(ROWS, SHOP), description=Unreadable()), dg.LaplaceMechanism(1), budget=budget)
    assert not budget.events


def test_statistics_add():
    both = purchases(ROWS[:7], SHOP) + purchases(ROWS[7:], SHOP)
    for name in (("kind",), ("spent",)):
        whole = purchases(ROWS, SHOP).sensitive_block(name, UNITS[0])
        assert both.sensitive_block(name, UNITS[0]).tolist() == whole.tolist()


@pytest.mark.proof
@pytest.mark.parametrize("method", ["basic", "gdp", "zcdp", "pld"])
def test_costs_of_the_family_compose(method):
    """Exactly where losses add; never more than that elsewhere, and less than half for a hundred small ones."""
    mechanisms = [FirstBlock("0.01"), MixedMechanism("0.01"), dg.LaplaceMechanism("0.01")]
    events = [mechanism.event(SHOP, UNITS[0]) for mechanism in mechanisms] * 100
    if method == "basic":
        assert dg.cost(events).epsilon == 3
    else:
        assert dg.cost(events, method, "1e-6").epsilon < Fraction("1.5")


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_release_survives_its_file(name, unit, tmp_path):
    made = released(MECHANISMS[name], unit=unit)
    dg.save(made, tmp_path / "release.json")
    assert dg.load(tmp_path / "release.json") == made


def test_a_description_and_a_model_survive_their_files(tmp_path):
    model = fit(released(dg.LaplaceMechanism(5)))
    for value in (SHOP, model, replace(model, provenance=None)):
        dg.save(value, tmp_path / "value.json")
        assert dg.load(tmp_path / "value.json") == value


def test_a_mechanism_from_outside_takes_what_is_inside(tmp_path):
    """A network, by its description alone; its file names the network where all files do."""
    import pandas as pd

    one, other = (
        dg.count(pd.DataFrame({"rain": [rain], "wet": ["no"]}, dtype="str"), NETWORK) for rain in ("no", "yes")
    )
    assert dg.audit.privacy_loss(FirstBlock("0.5"), one, other).share == 1
    made = dg.release(one, FirstBlock("0.7"), budget=dg.Budget(1))
    assert made.value.values["wet", "rain"].shape == (2, 2)
    dg.save(made, tmp_path / "release.json")
    assert json.loads((tmp_path / "release.json").read_text())["network"]["variables"]
    assert dg.load(tmp_path / "release.json") == made


def plain_release(tmp_path, name="mixed", unit=UNITS[0]):
    path = tmp_path / "release.json"
    dg.save(released(MECHANISMS[name], unit=unit, noise=dg.testing.SeededNoise(1)), path)
    return path, json.loads(path.read_text())


def _wider(plain):
    for m in [*plain["event"]["measurements"], *plain["blocks"]]:
        m["law"] = {key: v if key == "name" else 2 * v for key, v in m["law"].items()}


def _no_unit(plain):
    plain["unit"]["rows_per_person"] = 2


def _other_cap(plain):
    plain["description"]["cap"] = 4


def _other_mechanism(plain):
    plain["event"]["mechanism"] = "Trusted"


def _other_law(plain):
    plain["event"]["measurements"][0]["law"]["name"] = "os.system"


def _other_kind(plain):
    plain["kind"] = "noisy-sales"


def _other_description(plain):
    plain["description"]["kind"] = "noisy-purchases"


def _other_total(plain):
    plain["n"] = 10**6


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (_wider, "not the scales it was made with"),
        (_no_unit, "no multiple of 2"),
        (_other_cap, "not the scales it was made with"),
        (_other_mechanism, "not a mechanism whose record can be checked"),
        (_other_law, "a noise law: one of"),
        (_other_kind, "not known"),
        (_other_description, "not known"),
        (_other_total, "number of purchases"),
    ],
)
def test_an_edited_file_is_refused(edit, message, tmp_path):
    path, plain = plain_release(tmp_path)
    edit(plain)
    path.write_text(edited(plain))
    with pytest.raises(dg.errors.FileError, match=message):
        dg.load(path)


def test_what_is_not_registered_is_not_saved(tmp_path):
    @dataclass(frozen=True)
    class Unknown(FirstBlock):
        def event(self, description, unit):
            return replace(super().event(description, unit), mechanism="Unknown")

    with pytest.raises(dg.errors.ReleaseError, match="not a mechanism whose record can be checked"):
        dg.save(released(Unknown(1)), tmp_path / "release.json")
    with pytest.raises(dg.errors.FileError, match="not saved"):
        dg.save(released(FirstBlock(1)).value, tmp_path / "value.json")
    with pytest.raises(dg.errors.FileError, match="not saved"):
        dg.save(purchases(ROWS, SHOP), tmp_path / "sensitive.json")
    assert list(tmp_path.iterdir()) == []


def test_a_codec_cannot_write_over_the_record(tmp_path):
    @dataclass(frozen=True)
    class Forged(Purchases):
        pass

    ext.register_codecs(ext.Codec("description", "forged", Forged, lambda one: {"version": 1}, purchases_of))
    with pytest.raises(dg.errors.FileError, match="write version"):
        dg.save(Forged(("bread",), 1), tmp_path / "forged.json")


def test_a_name_is_registered_once():
    with pytest.raises(dg.errors.FileError, match="another codec"):
        ext.register_codecs(
            ext.Codec("description", "half a call", set, plain_purchases, purchases_of),
            ext.Codec("description", "network", Purchases, plain_purchases, purchases_of),
        )
    ext.register_codecs(ext.Codec("description", "half a call", frozenset, plain_purchases, purchases_of))  # still free
    with pytest.raises(dg.errors.ReleaseError, match="another mechanism"):
        ext.register_mechanism("GaussianMechanism", lambda event, unit, what: event)
    with pytest.raises(dg.errors.ReleaseError, match="another noise law"):
        ext.register_law("discrete-laplace", MixedLaplace)


@pytest.mark.parametrize("source", [None, dg.testing.SeededNoise(3)], ids=["secure", "seeded"])
def test_the_new_law_is_drawn_as_it_says(source):
    """The mean of 5 000 squares is within 7 standard errors of the variance, and so wrong less than once in 1e6.

    E z^4 is below 24 scale^4 of either law. One draw that moves the mean as far alone has a chance below exp(-35). The
    variance of either scale alone is 60 away, which 7 of its own standard errors and the 22 allowed do not reach.
    """
    law, many = MixedLaplace(2.0, 8.0), 5_000
    noise = source or secure()
    drawn = np.concatenate([noise.add(np.zeros(1, np.int64), law) for _ in range(many)])
    error = 7 * math.sqrt(24 * (8.0**4 + 2.0**4) / 2 / many)
    assert abs((drawn.astype(float) ** 2).mean() - law.variance(1)) < error
    assert all(abs(ext.DiscreteLaplace(scale).variance(1) - law.variance(1)) > 2 * error for scale in (2.0, 8.0))


def secure():
    from dpgraph.privacy.noise import SecureNoise

    return SecureNoise()


@dataclass(frozen=True, eq=False, repr=False)
class ShareDraws(ext.Draws):
    """Draws of the share of each kind."""

    draws: Any
    method: str = "plug-in"
    reason: str = "there is no other"
    provenance: ext.Provenance | None = None

    @property
    def arrays(self) -> dict[str, Any]:
        return {str(kind): self.draws[None, :, kind] for kind in range(self.draws.shape[1])}


def share_posterior(description, noisy, *, prior, method, draws, rng, progress):
    """A plug-in posterior, which is all the family has; at 80 rows and epsilon 50 its mean is far nearer than 0.1."""
    return ShareDraws(rng.dirichlet(np.maximum(noisy.values["kind",], 0) + (prior or 1.0), draws))


ext.posterior_given.register(Purchases, share_posterior)


def test_the_posterior_of_the_family_is_found_by_its_description():
    made = dg.posterior(released(dg.LaplaceMechanism(50)), draws=200, seed=0)
    assert made.provenance.event.epsilon == 50
    np.testing.assert_allclose(list(made.mean().values()), [0.25, 0.5, 0.25], atol=0.1)
