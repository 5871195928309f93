"""The demo as a new user runs it: how long it takes and what it learns.

python benchmarks/demo.py      about six minutes on two cores; needs no data
"""

import json
import subprocess
import sys

from common import arguments, clean, table, write_result


def main() -> None:
    """Run the command and write down what it says."""
    options = arguments(__doc__.splitlines()[0]).parse_args()
    out = options.scratch / "demo"
    clean(out)
    command = [sys.executable, "-m", "unmask", "demo", "-o", str(out), "--json"]
    result = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    valid = result["training"]["valid"]
    rows = [
        ("minutes, from the first word read to the last mask filled", f"{result['seconds'] / 60:.1f}"),
        ("minutes of training", f"{result['training']['seconds'] / 60:.1f}"),
        ("documents, tokens", f"{result['documents']:,}, {result['tokens']:,}"),
        ("tokens trained on", f"{result['training']['tokens']:,}"),
        ("hidden tokens right", f"{valid['accuracy']['mlm']:.1%}"),
        ("right by always saying the commonest token", f"{valid['guess']:.1%}"),
    ]
    filled = [(each["text"], ", ".join(each["words"])) for each in result["filled"]]
    body = f"{table(['what', 'value'], rows)}\n\n{table(['sentence', 'filled with'], filled)}\n"
    write_result("demo", "The demo", body, ["torch", "tokenizers", "numpy"])
    clean(out)


if __name__ == "__main__":
    main()
