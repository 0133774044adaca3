#!/usr/bin/env python3
"""Translates PTX to C++, so that tests run the kernels of src/cuda/ on a processor.

    python tools/ptx_to_cc.py KERNELS.ptx OUT.cc [--name kKernels]

Each kernel becomes a function that a thread calls again after each instruction at which the lanes of a warp meet; its registers
lie in the thread. src/cuda/test_ptx_machine.h runs these functions and checks every access to memory. Instructions that the
kernels do not have are refused, and so is what may give other bits on a device: operations that the device's compiler may fuse
(`mul.f32` without a rounding), that flush subnormal numbers (`.ftz`) or that approximate.
"""

import argparse
import re
import sys
from pathlib import Path

SIZES = {"8": 1, "16": 2, "32": 4, "64": 8}
SPECIAL = {"%tid.x": "t.index", "%ntid.x": "t.block_size", "%ctaid.x": "t.block", "%nctaid.x": "t.num_blocks"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
ROUNDINGS = ("rn", "rni", "rmi", "rzi")


class Refused(Exception):
    """The PTX has what no kernel of ours may have, or what this program does not know."""


def size_of(kind):
    return SIZES[kind[1:]]


def unsigned(kind):
    return "bool" if kind == "pred" else f"uint{8 * size_of(kind)}_t"


def number_type(kind):
    """The C++ type in which an instruction of this kind computes."""
    if kind[0] == "f":
        return {"f32": "float", "f64": "double"}[kind]
    return f"{'' if kind[0] == 's' else 'u'}int{8 * size_of(kind)}_t"


class Kernel:
    """One kernel: its parameters, its registers and its statements as C++."""

    def __init__(self, name, parameters, body, shared):
        self.name, self.registers, self.lines = name, [], []
        self.parameter = re.search(r"\.b8\s+(\w+)\[(\d+)\]", parameters)
        if self.parameter is None or parameters.count(".param") != 1:
            raise Refused(f"{name}: expected one struct as parameter")
        self.shared = dict(shared)
        self.meetings, self.pending = 0, 0
        for line in body.splitlines():
            self._line(line.strip())
        self._count()

    def _line(self, line):
        label = re.fullmatch(r"(\$?\w+):", line)
        if label:
            self._count()
            self.lines.append(f"{label.group(1).replace('$', 'L_')}:;")
        elif line.startswith(".reg"):
            kind, prefix, count = re.fullmatch(r"\.reg \.(\w+)\s+%(\w+)<(\d+)>;", line).groups()
            self.registers.append((unsigned(kind), prefix, int(count)))
        elif line.startswith(".shared"):
            name, size = re.search(r"\.b8\s+(\w+)\[(\d+)\]", line).groups()
            self.shared[name] = int(size)
        elif line and not line.startswith((".", "{", "}", "//")):
            self._statement(line.rstrip(";").strip())

    def _count(self):
        if self.pending:
            self.lines.append(f"t.executed += {self.pending};")
        self.pending = 0

    def _statement(self, text):
        self.pending += 1
        guard = re.match(r"@(!?)(%\w+)\s+", text)
        statement = text[guard.end():] if guard else text
        word, _, rest = statement.replace("\t", " ").partition(" ")
        parts = word.split(".")
        operands = [operand.strip() for operand in re.split(r",(?![^{]*\})", rest.strip())] if rest.strip() else []
        if parts[0] in ("bra", "ret"):
            self._count()
        code = self._instruction(parts, operands, text)
        if guard:
            if parts[0] == "shfl":
                raise Refused(f"{self.name}: a guarded meeting of lanes: {text}")
            code = f"if ({guard.group(1)}{self._value(guard.group(2))}) {{ {code} }}"
        self.lines.append(code)

    def _value(self, operand):
        if operand in SPECIAL:
            return SPECIAL[operand]
        if operand.startswith("%"):
            return "r." + operand[1:]
        if operand.startswith("0f"):
            return f"0x{operand[2:]}u"
        if operand.startswith("0d"):
            return f"0x{operand[2:]}ull"
        if operand in self.shared:
            return f"t.SharedAddress({list(self.shared).index(operand)})"
        if operand == self.parameter.group(1):
            return "t.ParameterAddress()"
        if re.fullmatch(r"-?\d+", operand):
            return f"{operand}ll" if operand != "-9223372036854775808" else "INT64_MIN"
        raise Refused(f"{self.name}: unknown operand {operand}")

    def _as(self, operand, kind):
        """An operand as a number of this kind."""
        value = self._value(operand)
        if kind[0] == "f":
            return f"As<{number_type(kind)}>({unsigned('b' + kind[1:])}({value}))"
        return f"{number_type(kind)}({value})"

    def _set(self, target, kind, value):
        return f"{self._value(target)} = {f'BitsOf({value})' if kind[0] == 'f' else f'{unsigned(kind)}({value})'};"

    def _instruction(self, parts, operands, text):
        base, kind = parts[0], parts[-1]
        if {"ftz", "approx", "full", "sat"} & set(parts):
            raise Refused(f"{self.name}: an operation that flushes or approximates: {text}")
        if kind in ("f32", "f64") and base in ("add", "sub", "mul", "div", "fma", "mad") and "rn" not in parts:
            raise Refused(f"{self.name}: an operation that may be fused: {text}")
        special = getattr(self, f"_{base}", None)
        if special is not None:
            return special(parts, operands, text)
        binary = {"add": "+", "sub": "-", "and": "&", "or": "|", "xor": "^"}
        if base in binary:
            if kind == "pred":
                return f"{self._value(operands[0])} = {self._value(operands[1])} {binary[base]} {self._value(operands[2])};"
            compute = kind if kind[0] == "f" else "u" + kind[1:]
            a, b = (self._as(operand, compute) for operand in operands[1:])
            return self._set(operands[0], kind, f"{a} {binary[base]} {b}")
        if base in ("min", "max"):
            return self._set(operands[0], kind, f"{base.title()}({self._as(operands[1], kind)}, {self._as(operands[2], kind)})")
        unary = {"neg": "-", "not": "~", "abs": "std::fabs"}
        if base in unary and (base != "abs" or kind[0] == "f"):
            if kind == "pred":
                return f"{self._value(operands[0])} = !{self._value(operands[1])};"
            compute = kind if kind[0] == "f" else "u" + kind[1:]
            return self._set(operands[0], kind, f"{unary[base]}({self._as(operands[1], compute)})")
        raise Refused(f"{self.name}: unknown instruction {text}")

    def _address(self, operand):
        base, offset = re.fullmatch(r"\[([%\w$]+)(?:\+(-?\d+))?\]", operand).groups()
        return f"{self._value(base)} + {offset or 0}"

    def _ld(self, parts, operands, text):
        space, kind = parts[1], parts[-1]
        if set(parts[2:-1]) - {"v2", "v4"} or space not in ("param", "global", "shared"):
            raise Refused(f"{self.name}: unknown load {text}")
        targets = [target.strip() for target in ", ".join(operands[:-1]).strip("{}").split(",")]
        width, address, read = size_of(kind), self._address(operands[-1]), f"t.Load{space.title()}<{number_type('u' + kind[1:])}>"
        if kind[0] == "s":
            read = f"t.Load{space.title()}<{number_type(kind)}>"
        aligned = f"t.Align({address}, {width * len(targets)}); "
        return aligned + " ".join(f"{self._value(target)} = {read}({address} + {i * width});" for i, target in enumerate(targets))

    def _st(self, parts, operands, text):
        space, kind = parts[1], parts[-1]
        if set(parts[2:-1]) - {"v2", "v4"} or space not in ("global", "shared"):
            raise Refused(f"{self.name}: unknown store {text}")
        values = [value.strip() for value in ", ".join(operands[1:]).strip("{}").split(",")]
        width, address = size_of(kind), self._address(operands[0])
        aligned = f"t.Align({address}, {width * len(values)}); "
        return aligned + " ".join(f"t.Store{space.title()}({address} + {i * width}, {unsigned('b' + kind[1:])}({self._value(value)}));"
                                  for i, value in enumerate(values))

    def _mov(self, parts, operands, text):
        return f"{self._value(operands[0])} = {self._value(operands[1])};"

    def _cvta(self, parts, operands, text):
        return self._mov(parts, operands, text)

    def _selp(self, parts, operands, text):
        return f"{self._value(operands[0])} = {self._value(operands[3])} ? {self._value(operands[1])} : {self._value(operands[2])};"

    def _setp(self, parts, operands, text):
        compare, kind = parts[1], parts[-1]
        if len(parts) != 3:
            raise Refused(f"{self.name}: unknown instruction {text}")
        a, b = self._as(operands[1], kind), self._as(operands[2], kind)
        if compare == "nan":
            return f"{self._value(operands[0])} = std::isnan({a}) || std::isnan({b});"
        if kind[0] == "f" and compare == "ne":
            return f"{self._value(operands[0])} = {a} < {b} || {a} > {b};"  # false for NaN
        if kind[0] == "f" and compare.endswith("u"):
            return f"{self._value(operands[0])} = std::isnan({a}) || std::isnan({b}) || {a} {COMPARE[compare[:-1]]} {b};"
        return f"{self._value(operands[0])} = {a} {COMPARE[compare]} {b};"

    def _mul(self, parts, operands, text):
        kind = parts[-1]
        if kind[0] == "f":
            return self._set(operands[0], kind, f"{self._as(operands[1], kind)} * {self._as(operands[2], kind)}")
        if "lo" in parts:
            unsigned_kind = "u" + kind[1:]
            return self._set(operands[0], kind, f"{self._as(operands[1], unsigned_kind)} * {self._as(operands[2], unsigned_kind)}")
        wide = kind[0] + str(16 * size_of(kind))
        if "wide" not in parts or kind not in ("s32", "u32", "s16", "u16"):
            raise Refused(f"{self.name}: unknown instruction {text}")
        factors = (f"{number_type(wide)}({self._as(operand, kind)})" for operand in operands[1:])
        return self._set(operands[0], wide, " * ".join(factors))

    def _mad(self, parts, operands, text):
        kind = parts[-1]
        product = self._mul(parts, operands[:3], text)
        result = kind[0] + str(16 * size_of(kind)) if "wide" in parts else kind
        return product[:-1] + f"; {self._value(operands[0])} += {self._as(operands[3], result)};"

    def _div(self, parts, operands, text):
        kind = parts[-1]
        if kind[0] == "f":
            return self._set(operands[0], kind, f"{self._as(operands[1], kind)} / {self._as(operands[2], kind)}")
        return self._set(operands[0], kind, f"t.Divide({self._as(operands[1], kind)}, {self._as(operands[2], kind)})")

    def _rem(self, parts, operands, text):
        kind = parts[-1]
        return self._set(operands[0], kind, f"t.Remainder({self._as(operands[1], kind)}, {self._as(operands[2], kind)})")

    def _shl(self, parts, operands, text):
        kind = "u" + parts[-1][1:]
        return self._set(operands[0], kind, f"ShiftLeft({self._as(operands[1], kind)}, uint32_t({self._value(operands[2])}))")

    def _shr(self, parts, operands, text):
        kind = parts[-1] if parts[-1][0] == "s" else "u" + parts[-1][1:]
        return self._set(operands[0], kind, f"ShiftRight({self._as(operands[1], kind)}, uint32_t({self._value(operands[2])}))")

    def _bfe(self, parts, operands, text):
        if parts[-1] != "u32":
            raise Refused(f"{self.name}: unknown instruction {text}")
        a, position, count = (self._value(operand) for operand in operands[1:])
        return f"{self._value(operands[0])} = BitField(uint32_t({a}), uint32_t({position}), uint32_t({count}));"

    def _clz(self, parts, operands, text):
        return f"{self._value(operands[0])} = uint32_t(std::countl_zero({unsigned(parts[-1])}({self._value(operands[1])})));"

    def _prmt(self, parts, operands, text):
        a, b, selector = (self._value(operand) for operand in operands[1:])
        return f"{self._value(operands[0])} = Permute(uint32_t({a}), uint32_t({b}), uint32_t({selector}));"

    def _cvt(self, parts, operands, text):
        to, source = parts[-2:]
        rounding = parts[1] if parts[1] in ROUNDINGS else ""
        target, value = operands
        if (to, source) == ("f32", "f16"):
            return f"{self._value(target)} = WidenHalf(uint16_t({self._value(value)}));"
        if (to, source, rounding) == ("f16", "f32", "rn"):
            return f"{self._value(target)} = NarrowFloat(uint32_t({self._value(value)}));"
        a = self._as(value, source)
        if to[0] == "f" and to == source:
            function = {"rni": "std::nearbyint", "rmi": "std::floor"}[rounding]
            return self._set(target, to, f"{function}({a})")
        if to[0] == "f" or source[0] == "f":
            if rounding != {True: "rzi", False: "rn"}[to[0] != "f"] and (to, source) != ("f64", "f32"):
                raise Refused(f"{self.name}: unknown instruction {text}")
            return self._set(target, to, f"Convert<{number_type(to)}>({a})")
        return f"{self._value(target)} = {number_type(to)}({a});"

    def _shfl(self, parts, operands, text):
        if parts[1:] != ["sync", "bfly", "b32"] or operands[3] != "31":
            raise Refused(f"{self.name}: unknown instruction {text}")
        self.meetings += 1
        self._count()
        target, value, lane, _, mask = operands
        return (f"t.Meet({self.meetings}, uint32_t({self._value(value)}), uint32_t({self._value(lane)}), uint32_t({self._value(mask)})); "
                f"return; case {self.meetings}: {self._value(target)} = t.received;")

    def _bra(self, parts, operands, text):
        return f"goto {operands[0].replace('$', 'L_')};"

    def _ret(self, parts, operands, text):
        return "t.End(); return;"

    def code(self):
        """The kernel as a function, and its row in the table."""
        fields = " ".join(f"{kind} " + ", ".join(f"{prefix}{i}" for i in range(count)) + ";" for kind, prefix, count in self.registers)
        begin = "Registers& r = *static_cast<Registers*>(t.registers);" if self.meetings else "Registers r{};"
        shared = ", ".join(str(size) for size in self.shared.values())
        body = "\n".join(f"  {line}" for line in self.lines)
        function = (f"struct {self.name}_registers {{ {fields} }};\n"
                    f"void {self.name}(Thread& t) {{\n  using Registers = {self.name}_registers;\n  {begin}\n"
                    f"  switch (t.resume) {{ case 0:;\n{body}\n  }}\n}}\n")
        size = f"sizeof({self.name}_registers)" if self.meetings else "0"
        return function, f'{{"{self.name}", {self.name}, {self.parameter.group(2)}, {size}, {{{shared}}}}}'


def translate(text, table):
    """C++ for all kernels of a PTX file, in a table of this name."""
    text = re.sub(r"//.*", "", text)
    shared = re.findall(r"^\s*\.shared .*?\.b8\s+(\w+)\[(\d+)\];", re.sub(r"\{.*?\n\}", "", text, flags=re.S), re.M)
    kernels = []
    for name, parameters, body in re.findall(r"\.visible \.entry (\w+)\((.*?)\)\s*(?:\.(?:maxntid|minnctapersm) [\d, ]+\s*)*\{(.*?)\n\}", text, re.S):
        kernels.append(Kernel(name, parameters, body, {key: int(size) for key, size in shared}).code())
    if len(kernels) != text.count(".entry"):
        raise Refused("a kernel could not be read")
    functions = "\n".join(function for function, _ in kernels)
    rows = ",\n    ".join(row for _, row in kernels)
    return (f'// Made by tools/ptx_to_cc.py.\n#include "cuda/test_ptx_machine.h"\n\n#include "cuda/test_ptx_numbers.h"\n\n'
            f"namespace bitpress::cuda {{\nnamespace {{\n{functions}}}  // namespace\n\n"
            f"const std::vector<TranslatedKernel>& {table}() {{\n  static const std::vector<TranslatedKernel> kernels = {{\n    {rows}}};\n"
            f"  return kernels;\n}}\n}}  // namespace bitpress::cuda\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ptx", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--name", default="TranslatedKernels")
    arguments = parser.parse_args()
    try:
        arguments.out.write_text(translate(arguments.ptx.read_text(encoding="utf-8"), arguments.name), encoding="utf-8")
    except Refused as error:
        sys.exit(f"tools/ptx_to_cc.py: {error}")


if __name__ == "__main__":
    main()
