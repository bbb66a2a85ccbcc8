"""How far the errors of the estimate go together: one-way intraclass correlations of the errors of published runs that no constant has seen.

    mkdir -p OTHER/results && cp -r benchmarks/unfitted OTHER
    gpuplan accuracy --refit --residuals held-out.csv --constants OTHER/results/constants.toml     # minutes; what it writes stays in OTHER
    python benchmarks/budget/correlation.py held-out.csv

`src/budget/portfolio/simulation.rs` has what this prints for `group` (code bases), and what `group and gpu` adds to it. What runs of one family or framework have in common
beyond their code base is printed too, and is nothing: a code base has one framework.
"""

import csv
import math
import sys
from collections import defaultdict
from pathlib import Path

PUBLISHED = Path(__file__).parent.parent / "published"

# An error of a factor of two is another run than the one that was meant, and would decide everything.
MOST = math.log(2)


def intraclass(names: list[str], errors: list[float]) -> tuple[float, int]:
    """Share of the variance that is between groups (Fisher's, for groups of any size), and the number of groups."""
    groups: dict[str, list[float]] = defaultdict(list)
    for name, error in zip(names, errors):
        groups[name].append(error)
    members = [group for group in groups.values() if len(group) > 1]
    runs = sum(map(len, members))
    mean = sum(map(sum, members)) / runs
    means = [sum(group) / len(group) for group in members]
    between = sum(len(group) * (own - mean) ** 2 for group, own in zip(members, means)) / (len(members) - 1)
    within = sum((error - own) ** 2 for group, own in zip(members, means) for error in group) / (runs - len(members))
    size = (runs - sum(len(group) ** 2 for group in members) / runs) / (len(members) - 1)
    common = (between - within) / size
    return common / (common + within), len(members)


def main() -> None:
    with open(sys.argv[1], newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["held_out_by"] == "group"]
    errors = [math.log1p(float(row["error_percent"]) / 100) for row in rows]
    errors = [max(-MOST, min(MOST, error)) for error in errors]
    print(f"{len(rows)} runs, each predicted without its code base")
    for words, name in [
        ("group", lambda row: row["group"]),
        ("gpu", lambda row: row["gpu"]),
        ("group and gpu", lambda row: f"{row['group']} {row['gpu']}"),
    ]:
        share, groups = intraclass([name(row) for row in rows], errors)
        print(f"{words}: {share:.2f} ({groups})")
    of_base = defaultdict(list)
    for row, error in zip(rows, errors):
        of_base[row["group"]].append(error)
    left = [error - sum(of_base[row["group"]]) / len(of_base[row["group"]]) for row, error in zip(rows, errors)]
    frameworks = {}
    for path in PUBLISHED.glob("*.csv"):
        with path.open(newline="") as file:
            frameworks |= {row["id"]: row.get("training.framework") for row in csv.DictReader(file) if "id" in row}
    for words, name in [("family", lambda row: row["family"]), ("framework", lambda row: frameworks.get(row["id"]))]:
        known = [(name(row), error) for row, error in zip(rows, left) if name(row)]
        share, groups = intraclass(*map(list, zip(*known)))
        print(f"{words}, once the mean of each code base is taken away: {share:.2f} ({groups})")


if __name__ == "__main__":
    main()
