"""Programs that charge a ledger in processes of their own, and what tests charge."""

import sqlite3
import subprocess
import sys

import pandas as pd

import dpgraph as dg
from dpgraph.privacy.records import Event, exact

NETWORK = dg.Network.of({"word": ["no", "yes"], "kind": ["a", "b"]}, {"word": ["kind"]})
ROWS = pd.DataFrame({"word": ["no", "yes", "yes"], "kind": ["a", "b", "b"]})
DOMAIN = dg.Domain.of({"region": ["north", "south"], "sex": ["F", "M"]})


def spend(epsilon, delta=0):
    return Event("test", exact(epsilon), exact(delta, "delta", zero=True))


def open_(url, epsilon=None, **settings):
    return dg.Budget.open(url, dataset="survey", epsilon=epsilon, **settings)


def released(budget, epsilon="0.1"):
    return dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism(epsilon), budget=budget)


def what_another_writer_hears(path):
    """ "free" where another connection could begin to write now, else why it cannot."""
    other = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        return "free"
    except sqlite3.OperationalError as error:
        return str(error)
    finally:
        other.close()


def python(program, *words, **settings):
    """Starts a program of Python in another process."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", program, *words], **(pipes | settings))


def finished(process):
    """What a program prints; it must end well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


#: Waits for a line, then tries to spend one ``times`` times from ``threads`` threads; prints how often it could, and
#: any error but a refusal.
SPENDER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import dpgraph as dg
from tests.privacy.ledger.charging import open_, spend

url, times, threads, rounds = sys.argv[1], *map(int, sys.argv[2:5])

def try_to_spend(budget):
    try:
        budget.charge(spend(1))
    except dg.errors.BudgetExceededError:
        return 0
    return 1

with ThreadPoolExecutor(threads) as pool:
    for at in range(rounds):
        print("ready", flush=True)
        name = sys.stdin.readline().strip()
        budget = dg.Budget.open(url, dataset=name)
        print(sum(pool.map(try_to_spend, [budget] * times)), flush=True)
"""
