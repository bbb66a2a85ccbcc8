"""What `gpuplan --focus 1.2` writes, against the FinOps Foundation's own validator (PyPI: focus-validator, Python 3.12 or later).

Usage: python focus.py FILE.csv...  in an environment with focus-validator. Ends with 1 if a rule fails that is ours to keep.
"""

import re
import subprocess
import sys
from pathlib import Path

import focus_validator

# What the clouds can do whose charges these are.
CRITERIA = [
    "AVAILABILITY_ZONE_SUPPORTED",
    "COMMITMENT_DISCOUNT_SUPPORTED",
    "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
    "NEGOTIATED_PRICING_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED",
    "UNIT_PRICING_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
    "REGION_SUPPORTED",
    "TAGGING_SUPPORTED",
]
# Rules that cannot be kept, or that the validator reads otherwise than the specification, with the reason.
NOT_OURS = {
    "InvoiceId-C-004-C": "of charges without an invoice; the validator demands it of those that have one too, and with the next rule of every file",
    "BillingAccountId-C-002-M": "a table of text has no types: the validator takes an account whose number is all digits for a number",
    "InvoiceId-C-005-C": "a forecast, and a bill of a month that is not closed, have no invoice yet; the rule is for those that have",
    "CommitmentDiscountStatus-C-005-M": "each row is Used or Unused, as it asks; the validator demands that all rows of a file are the same one",
    "CommitmentDiscountStatus-C-004-C": "demanded of rows without a commitment too, though its own text excepts them",
}
# The columns of a currency that prices are in: all prices here are in the currency of the bill, for which the column is absent.
NOT_HERE = re.compile(r"PricingCurrency|CostAndUsage-D-04[5-8]|CostAndUsage-D-05[0-6]|CostAndUsage-D-00[0-2]-M")


def failures(path: Path, criteria: list[str]) -> dict[str, str]:
    """The rules that fail by themselves, and not because one below them does."""
    command = [Path(sys.executable).with_name("focus-validator"), "--data-file", path.resolve()]
    command += ["--validate-version", "1.2", "--block-download", "--output-type", "console"]
    command += ["--applicability-criteria", ",".join(criteria)] if criteria else []
    # It looks for its list of currencies beside itself.
    beside = Path(focus_validator.__file__).parent.parent
    ran = subprocess.run(command, cwd=beside, capture_output=True, text=True)
    found = re.findall(r"^\S+ (\S+): FAIL +\(violations=\d+, msg=(.*?)(?:, [\d.]+ms)?\)$", ran.stdout, re.MULTILINE)
    total = re.search(r"^Total: .*$", ran.stdout, re.MULTILINE)
    assert total, ran.stdout[-2000:] + ran.stderr[-2000:]
    print(f"{path.name}, {len(criteria)} criteria: {total.group()}")
    return {rule: words for rule, words in found if "AND failed" not in words and not NOT_HERE.match(rule)}


def main() -> int:
    is_wrong = False
    for path in map(Path, sys.argv[1:]):
        for criteria in ([], CRITERIA):
            for rule, words in failures(path, criteria).items():
                is_wrong |= rule not in NOT_OURS
                print(f"  {rule}: {NOT_OURS.get(rule, 'OURS: ' + words)}")
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
