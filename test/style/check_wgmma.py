#!/usr/bin/env python3
"""Fails where ptxas makes tensor-core products wait for each other, which it says only when asked.

    check_wgmma.py BUILD_FOLDER

Compiles the throughput kernel's instances again, with the commands of BUILD_FOLDER/compile_commands.json and
ptxas' messages. Anything that diverges between two wgmma, or a sum that some path copies, makes each product
wait for the one before: correct, and much slower.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

SERIALIZED = re.compile(r"\((C75\d\d)\).*?serialized.*?function '([^']+)'")


def serialized(messages):
    """(number of the message, function) of every complaint about serialized wgmma in ptxas' messages."""
    return [match.groups() for match in SERIALIZED.finditer(messages)]


def compile_again(entry, folder):
    """What ptxas says of one source."""
    command = shlex.split(entry["command"])
    output = command.index("-o") + 1
    command[output] = str(pathlib.Path(folder) / (pathlib.Path(entry["file"]).stem + ".o"))
    for flag in ("-MF", "-MT"):
        if flag in command:
            command[command.index(flag) + 1] = command[output] + ".d"
    done = subprocess.run([*command, "-Xptxas=-v"], cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{entry['file']}: {done.stderr[-2000:]}")
    if "ptxas info" not in done.stderr:
        raise RuntimeError(f"{entry['file']}: no messages of ptxas")
    return done.stderr


def main(build):
    entries = [e for e in json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
               if re.search(r"/kernels/product/packed_matmul_\w+\.cu$", e["file"])]
    if not entries:
        print("no instances of the throughput kernel in", build)
        return 1
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        messages = list(pool.map(lambda entry: compile_again(entry, folder), entries))
    found = [complaint for text in messages for complaint in serialized(text)]
    for number, function in found:
        print(f"{number}: wgmma serialized in {function}")
    print(f"{len(entries)} sources compiled, {len(found)} functions with serialized products")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
