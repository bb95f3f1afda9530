"""A release is evidence: what its file claims is recomputed, from its noise and from what is public (promise.md S19).

Every edit below computes the digest again, as a forger would. The saved files are of releases
with seeded noise.
"""

import copy
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpgraph as dg
from dpgraph.files.digest import digest
from dpgraph.files.documents import document
from dpgraph.files.releases import reach
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from tests.files.edits import edited

SAVED = {path.stem: path for path in sorted((Path(__file__).parent / "saved").glob("*.json"))}
UNITS = {"replace": dg.PrivacyUnit("replace"), "add-remove": dg.PrivacyUnit("add-remove", 2)}
PLANNED = {
    "laplace-replace": dg.LaplaceMechanism("1/3"),
    "laplace-families": dg.LaplaceMechanism(1, tables="families", allocation="uniform"),
    "laplace-add-remove": dg.LaplaceMechanism("0.7"),
    "gaussian-tables": dg.GaussianMechanism(1, "1e-6", rho="121779851797/5000000000000"),
    "gaussian-residual": dg.GaussianMechanism(1, "1e-6", rho="121779851797/5000000000000", basis="residual"),
    "fourier-parities": dg.FourierMechanism(1),
    "fourier-paper": dg.FourierMechanism(1, "paper", t=1),
    "fourier-walsh": dg.FourierMechanism(1),
    "fourier-residual-replace": dg.FourierMechanism("1/7"),
    "fourier-residual-add-remove": dg.FourierMechanism("1/7"),
    "posterior-sample": dg.PosteriorSample(1, draws=2, grid=5),
    "map-estimate": dg.MapEstimate(1),
}


def test_there_are_saved_files_for_every_kind_of_record():
    assert len(SAVED) == 22


@pytest.mark.parametrize("version", [1, 2, 4, True, "3", None, 10**400])
def test_a_file_of_another_version_is_to_be_written_again(version, tmp_path):
    plain = plain_of("laplace-replace") | {"version": version}
    for text in (json.dumps(plain), edited(plain)):
        (tmp_path / "r.json").write_text(text)
        for read in (dg.load, dg.read_network):
            with pytest.raises(dg.errors.FileError, match="write the file again"):
                read(tmp_path / "r.json")


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_file_is_what_its_mechanism_plans_and_is_written_again(name, tmp_path):
    value = dg.load(SAVED[name])
    dg.save(value, tmp_path / "again.json")
    plain = json.loads((tmp_path / "again.json").read_text())
    assert (plain["version"], plain["digest"]) == (3, digest(plain))
    again = dg.load(tmp_path / "again.json")
    assert document(again) == document(value)
    if name in PLANNED:
        planned = PLANNED[name].event(network_of(value.value), value.unit)
        assert value.event == replace(planned, mu=value.event.mu)  # records of before have no mu
        assert value.unit in UNITS.values()


def network_of(value):
    return value[0].network if isinstance(value, tuple) else value.network


def plain_of(name):
    return json.loads(json.dumps(document(dg.load(SAVED[name]))))


def put(*path):
    *way, last, value = path

    def change(plain):
        for key in way:
            plain = plain[key]
        plain[last] = value(plain[last]) if callable(value) else value

    return change


def inserted(*path):
    *way, name, value = path

    def change(plain):
        for key in way:
            plain = plain[key]
        assert name not in plain
        plain[name] = value

    return change


def epsilon(value):
    def change(plain):
        plain["event"]["epsilon"] = plain["cost"]["epsilon"] = value

    return change


def scales(factor, which=slice(None)):
    """Other scales, in the event and wherever the value repeats them."""

    def change(plain):
        laws = [m["law"] for m in plain["event"]["measurements"][which]]
        parts = plain.get("tables") if "tables" in plain else plain.get("blocks")
        if isinstance(parts, list):
            wanted = [m["table"] for m in plain["event"]["measurements"][which]]
            laws += [entry["law"] for entry in parts if entry["variables"] in wanted]
        elif "law" in plain:
            laws.append(plain["law"])
        for law in laws:
            law["scale"] *= factor

    return change


def without_rho(factor):
    def change(plain):
        del plain["event"]["rho"]
        scales(factor)(plain)

    return change


def movements(**changed):
    def change(plain):
        for m in plain["event"]["measurements"]:
            m["movement"] |= changed

    return change


def added(table, more):
    """A nested table with more in its first cell, or true in its place."""
    if isinstance(table, list):
        return [added(table[0], more), *table[1:]]
    return True if more is None else table + more


STILL = movements(l1=0, l2_squared=0, moved_cells=0)
LAPLACE = ["laplace-replace", "laplace-families", "laplace-add-remove", "posterior", "posterior-draws"]
FOURIER = ["fourier-parities", "fourier-paper", "fourier-walsh", "fourier-residual-replace"]
GAUSSIAN = ["gaussian-tables", "gaussian-residual", "regression-gaussian"]
MOMENTS = ["moments", "moments-add-remove", "categories", "regression-laplace", "regression-model"]
SELECTED = ["posterior-sample", "map-estimate", "quantiles"]
MEASURED = [*LAPLACE, *FOURIER, *GAUSSIAN, *MOMENTS]

EDITS = [
    ("laplace-replace", inserted("event", "measurements", 0, "sensitivity", 0), "'sensitivity' is unknown"),
    ("laplace-replace", inserted("unit", "persons", 3), "unit: 'persons' is unknown"),
    ("laplace-replace", inserted("event", "selections", []), "entries that dpgraph does not write"),
    *((name, epsilon("1/1000000000"), "claims epsilon 1e-09") for name in [*MEASURED, *SELECTED]),
    *((name, epsilon("20"), "claims epsilon 20, but") for name in [*LAPLACE, *FOURIER, *MOMENTS, *SELECTED]),
    *((name, scales(1e6), "not the scales it was made with") for name in MEASURED),
    *((name, scales(1 + 1e-9), "not the scales it was made with") for name in MEASURED),
    *((name, scales(1e6, slice(1)), "not the scales it was made with") for name in ["fourier-residual-replace"]),
    *((name, scales(1e-3), "but its noise costs|claims less than|less than its noise") for name in MEASURED),
    *((name, STILL, "moves? it by|does not measure what its record says") for name in MEASURED),
    *((name, put("unit", "rows_per_person", 100), "rows") for name in MEASURED),
    *((name, put("event", "mechanism", "Laplace"), "not a mechanism whose record") for name in [*MEASURED, *SELECTED]),
    *((name, put("event", "mechanism", "MapEstimate"), "makes one kind") for name in MEASURED),
    *((name, put("event", "mechanism", "FourierMechanism"), "does not") for name in [*LAPLACE[:3], *GAUSSIAN]),
    *((name, put("event", "mechanism", "GaussianMechanism"), "does not draw") for name in [*LAPLACE, *MOMENTS]),
    *((name, put("event", "mechanism", "LaplaceMechanism"), "does not") for name in [*GAUSSIAN, *SELECTED]),
    ("laplace-replace", put("event", "rho", "1/1000000"), "claims rho 1e-06"),
    ("gaussian-tables", put("event", "rho", "1/1000000"), "claims rho 1e-06"),
    ("gaussian-tables", put("event", "rho", "1/2"), "claims rho 0.5, but noise of these scales costs"),
    ("gaussian-residual", without_rho(2.0), "claims no rho"),
    ("gaussian-residual", without_rho(0.9), "less than its noise"),
    (
        "laplace-replace",
        put("event", "measurements", 0, "movement", "l2_squared", 4),
        "no whole numbers move",
    ),
    ("laplace-add-remove", put("event", "measurements", 0, "movement", "moved_cells", 2), "no whole numbers move"),
    ("laplace-add-remove", put("event", "measurements", 0, "movement", "l2_squared", 3), "no multiple"),
    (
        "laplace-families",
        put("event", "measurements", 0, "movement", "moved_cells", None),
        "and to move by",
    ),
    (
        "laplace-families",
        put("event", "measurements", 0, "movement", "fixed_total", False),
        "and to move by",
    ),
    ("laplace-replace", put("event", "measurements", 0, "movement", "fixed_total", False), "sums to zero would show"),
    ("laplace-replace", put("event", "measurements", 0, "movement", "l1", True), "l1: a whole number was"),
    (
        "laplace-replace",
        put("event", "measurements", 0, "movement", "fixed_total", 1),
        "fixed_total: true or false was",
    ),
    ("fourier-parities", put("event", "joint", None), "but its noise costs epsilon 1.75"),
    ("fourier-parities", put("event", "joint", "distance", lambda d: d - 1), "joint distance|not the scales"),
    ("fourier-parities", put("event", "joint", "distance", lambda d: d + 1), "joint distance|its noise costs"),
    ("fourier-residual-replace", put("event", "joint", "distance", lambda d: d - 1), "joint distance"),
    ("fourier-residual-replace", put("event", "joint", "weights", 0, lambda w: w + 1), "joint distance|not the scales"),
    ("fourier-parities", put("event", "joint", "weights", [True]), r"weights\[0\]: a whole number was"),
    ("laplace-replace", put("tables", 0, "counts", lambda t: added(t, 1)), "sums to zero, so its total is n = 60"),
    ("categories", put("sums", 0, lambda c: c + 1), "sums to zero, so its total is n = 3"),
    *((name, put("n", 0), "n = 0") for name in ["laplace-replace", "categories"]),
    *((name, put("n", 5 * 10**9), "n = 5000000000") for name in ["laplace-replace", "laplace-families", "categories"]),
    ("gaussian-tables", put("n", 5 * 10**9), "n = 5000000000"),
    ("fourier-paper", put("n", 5 * 10**9), "n = 5000000000"),
    ("fourier-parities", put("n", 61), "n = 61"),
    *((name, put("n", -1), "whole number") for name in ["laplace-replace", "fourier-paper", "moments"]),
    *((name, put("n", 2**62), "n must be a whole number") for name in ["laplace-replace", "fourier-paper", "moments"]),
    *((name, put("n", True), "whole number") for name in ["laplace-replace", "fourier-paper", "moments"]),
    ("laplace-replace", put("tables", 0, "counts", lambda t: added(t, None)), "64-bit whole number"),
    ("moments-add-remove", put("sums", 0, False), "64-bit whole number"),
    ("fourier-walsh", put("blocks", 1, "values", 0, True), "64-bit whole number"),
    ("posterior", put("concentration", "a", 0, True), "not a number"),
    ("posterior-sample", put("draws", 0, "a", [True, False]), "not a number"),
    ("posterior-draws", put("n", [[1, True]]), "whole number"),
    ("posterior-draws", put("n", [[1, -1]]), "latent rows"),
    ("posterior-draws", put("n", [[1, 1, 1]]), "latent rows"),
    ("posterior-draws", put("acceptance", {"x": True}), "from 0 to 1"),
    ("posterior-draws", put("acceptance", {"x": 1.5}), "from 0 to 1"),
    ("posterior-draws", put("tables", "a", 0, 0, [True, False]), "not a number"),
    ("regression-model", put("mixing", {"r_hat": True}), "not whole"),
    (
        "posterior-sample",
        put("event", "selections", 0, "epsilon", "1/4"),
        "of epsilon 1/4 where its plan has",
    ),
    ("posterior-sample", put("event", "selections", []), "one kind of selection"),
    ("posterior-sample", put("event", "selections", 0, "law", "permute-and-flip"), "does not select"),
    ("map-estimate", put("event", "selections", 0, "draws", 2), "claims epsilon 1, but"),
]


@pytest.mark.parametrize(("name", "change", "message"), EDITS, ids=[f"{i}-{edit[0]}" for i, edit in enumerate(EDITS)])
def test_an_edited_record_is_refused_for_what_does_not_fit(name, change, message, tmp_path):
    plain = plain_of(name)
    (tmp_path / "r.json").write_text(edited(plain))
    dg.load(tmp_path / "r.json")
    change(plain)
    (tmp_path / "r.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError, match=message):
        dg.load(tmp_path / "r.json")


def test_a_change_that_makes_sense_is_noticed_by_the_digest_alone(tmp_path):
    """Two counts that make up for each other: a forger who computes the digest again is not found out."""
    plain = plain_of("laplace-replace")
    dg.save(dg.load(SAVED["laplace-replace"]), tmp_path / "r.json")
    whole = json.loads((tmp_path / "r.json").read_text())
    changed = copy.deepcopy(whole)
    table = changed["tables"][0]["counts"]
    changed["tables"][0]["counts"] = [added(table[0], 1), added(table[1], -1), *table[2:]]
    for rotten in (changed, {**whole, "digest": "sha256:0"}, {k: v for k, v in whole.items() if k != "digest"}):
        (tmp_path / "r.json").write_text(json.dumps(rotten))
        with pytest.raises(dg.errors.FileError, match="digest"):
            dg.load(tmp_path / "r.json")
        with pytest.raises(dg.errors.FileError, match="digest"):
            dg.read_network(tmp_path / "r.json")
    (tmp_path / "r.json").write_text(edited(changed))
    assert dg.load(tmp_path / "r.json").value.tables != dg.load(SAVED["laplace-replace"]).value.tables
    (tmp_path / "r.json").write_text(json.dumps(whole, indent=None))
    assert document(dg.load(tmp_path / "r.json")) == plain


def test_a_record_that_could_not_be_read_is_not_written(tmp_path):
    """A mechanism of a user's own has no plan that a reader could compute again."""
    release = dg.load(SAVED["laplace-replace"])
    foreign = dg.privacy.records.Event("Mine", Fraction(1), measurements=release.event.measurements)
    with pytest.raises(dg.errors.ReleaseError, match="'Mine' is not a mechanism whose record can be checked"):
        dg.save(dg.Release(release.value, foreign, release.unit), tmp_path / "r.json")
    assert list(tmp_path.iterdir()) == []


LAWS = [DiscreteLaplace(0.3), DiscreteLaplace(7.0), DiscreteGaussian(0.6), DiscreteGaussian(9.0)]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("draws", [1, 3])
def test_totals_are_refused_once_in_2_to_the_100_and_no_less_than_need_be(law, draws):
    """The exact tail of the sum, by convolution: below 2^-100 beyond the reach, and not below 2^-450 there."""
    import mpmath

    with mpmath.workdps(200):
        side = int(2 * reach(law, draws)) + 50
        if isinstance(law, DiscreteLaplace):
            weight = [mpmath.exp(-mpmath.mpf(z) / law.scale) for z in range(side + 1)]
        else:
            weight = [mpmath.exp(-mpmath.mpf(z * z) / (2 * law.scale**2)) for z in range(side + 1)]
        one = [weight[abs(z)] for z in range(-side, side + 1)]
        if draws == 1:
            tail = 2 * sum(weight[int(reach(law, 1)) + 1 :]) / sum(one)
            assert mpmath.mpf(2) ** -450 < tail < mpmath.mpf(2) ** -100
        else:  # union bound from below: one of the draws alone may do it
            assert 2 * sum(weight[int(reach(law, draws)) + 1 :]) / sum(one) < mpmath.mpf(2) ** -100
