#!/usr/bin/env python3
"""What kernels were compiled to: loads by kind, atomics, and how many instructions. Asks cuobjdump of the CUDA toolkit.

    tools/machine_code.py FILE [KERNEL ...]         of an object or a program: these kernels ("ldg::copyKernel"), or all
    tools/machine_code.py FILE --stated PROGRAM     compares with what PROGRAM's self-checks state: lines "compiled: KERNEL: LOADS"

A kernel is named without template arguments: it can have several lines. Exit code 1: a kernel is not there, or is not what was
stated; 77: no cuobjdump, or no machine code in the file.
"""
import os
import re
import shutil
import subprocess
import sys

# the first whose pattern an instruction's name begins with. CI: before Volta
LOADS = [("read-only", r"LDG\.\S*(CONSTANT|CI)\b"), ("plain", r"LDG\b"), ("fetches", r"TLD|TEX"), ("shared", r"LDS"), ("local", r"LDL\b"),
         ("generic", r"LD\b"), ("atomics", r"(ATOM|RED)[GS]?\b")]  # REDUX is none
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ +)?([A-Z]\S*?);?(?:\s|$)", re.M)


class NoCode(Exception):
    """Nothing can be looked into here."""


def name_of(symbol):
    """"plain::copyKernel" of _ZN45_GLOBAL__N__..._185plain10copyKernelEPiS1_m."""
    rest, parts = re.sub(r"^_ZN?L?", "", symbol), []
    while digits := re.match(r"\d+", rest):
        end = digits.end() + int(digits.group())
        parts.append(rest[digits.end():end])
        rest = rest[end:]
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) or symbol


def loads_in(instructions):
    """"1 plain, 1 read-only"; no load and no atomic is "none"."""
    counts = dict.fromkeys(("plain", "read-only", "fetches", "shared", "local", "generic", "atomics"), 0)
    for instruction in instructions:
        for kind, pattern in LOADS:
            if re.match(pattern, instruction):
                counts[kind] += 1
                break
    return ", ".join("%d %s" % (count, kind) for kind, count in counts.items() if count) or "none"


def kernels_in(text):
    """Name and instructions of each function that cuobjdump -sass has printed."""
    for part in text.split("Function : ")[1:]:
        yield name_of(part.split(None, 1)[0]), [name for name in INSTRUCTION.findall(part) if name != "NOP"]


def disassembled(path):
    if not os.path.exists(path):
        sys.exit("machine_code.py: there is no file '%s'" % path)
    tool = shutil.which("cuobjdump", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    if not tool:
        raise NoCode("cuobjdump is not here")
    text = subprocess.run([tool, "-sass", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    if "Function : " not in text:
        raise NoCode("no machine code is in '%s'" % path)
    return list(kernels_in(text))


def stated_by(program):
    """What a program's self-checks state: kernels and their loads."""
    text = subprocess.run([program, "--self-check", "--test-case=*compiled to*"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return re.findall(r"^compiled: (\S+): (.+)$", text, re.M)


def differences(kernels, stated):
    for name, loads in stated:
        found = {loads_in(code) for other, code in kernels if other == name}
        if found != {loads}:
            yield "%s: %s, stated: %s" % (name, " and ".join(sorted(found)) or "not there", loads)


def main(arguments):
    if not arguments or arguments[0].startswith("-") or ("--stated" in arguments and (len(arguments) != 3 or arguments[1] != "--stated")):
        print("usage: machine_code.py FILE [KERNEL ... | --stated PROGRAM]", file=sys.stderr)
        return 2
    try:
        kernels = disassembled(arguments[0])
    except NoCode as why:
        print("machine_code.py: %s" % why, file=sys.stderr)
        return 77
    if "--stated" in arguments:
        stated = stated_by(arguments[2])
        wrong = list(differences(kernels, stated)) if stated else ["'%s' states nothing" % arguments[2]]
        print("\n".join(wrong) or "as stated: %d kernels" % len(stated))
        return 1 if wrong else 0
    for name in arguments[1:]:
        if name not in {other for other, _ in kernels}:
            sys.exit("machine_code.py: no kernel '%s' is in '%s'" % (name, arguments[0]))
    for name, code in kernels:
        if name in arguments[1:] or len(arguments) == 1:
            print("%s: %s; %d instructions" % (name, loads_in(code), len(code)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
