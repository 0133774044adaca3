#!/usr/bin/env bash
# Proves the operators on CUDA as far as a machine without a GPU can: pretended.sh VENV BUILD (`./dev cuda` calls it).
#   1. NVIDIA's assembler takes the kernels for every processor since Turing; registers and spills are shown.
#   2. The program for a GPU runs with a driver that executes the kernels on the processor: tens of millions of values.
#   3. The unmodified onnxruntime-gpu runs all operators through its CUDA provider, on a runtime that only pretends to have a GPU.
#   4. Models of --target cuda have all their nodes on CUDA.
set -euo pipefail
venv="$1" build="$(realpath "$2")" here="$(dirname "$(realpath "$0")")" failed=0
site="$(echo "$venv"/lib/python3*/site-packages)"
say() { printf '== %s\n' "$*"; }

say "ptxas"
ptxas="$site/nvidia/cuda_nvcc/bin/ptxas"
chmod +x "$ptxas"
for processor in sm_75 sm_80 sm_86 sm_89 sm_90 sm_100 sm_120; do
  "$ptxas" -arch="$processor" -v "$here/../../src/cuda/kernels.ptx" -o /dev/null 2>&1 | awk -v processor="$processor" '
    /Compiling/ { name = $7 } /spill/ { spills = $5 + $9 }
    /Used/ { printf "%-7s %-26s %3d registers, %d bytes spilled\n", processor, name, $5, spills } /error|fatal/ { print; bad = 1 }
    END { exit bad }' || failed=1
done

say "the program for a GPU, on the processor"
LD_LIBRARY_PATH="$build/pretended" "$build/cuda_device_check" --small "$build/pretended/figures.json" | grep -v 'GB/s' || failed=1

say "sessions on a pretended GPU"
runtime="$build/pretended/runtime" provider="$site/onnxruntime/capi/libonnxruntime_providers_cuda.so"
mkdir -p "$runtime"
# stub NAME VERSION: a library that has the functions which the provider takes from it, and they do nothing.
stub() {
  {
    nm -D --undefined-only "$provider" | sed -nE "s/.* ($3)(@.*)?$/extern \"C\" int \1(void** made) { if (made \&\& __builtin_strstr(\"\1\", \"Create\")) *made = made; return 0; }/p"
    echo "extern \"C\" int pretended_$1() { return 0; }"
  } >"$runtime/$1.cc"
  printf 'lib%s.so.%s { global: *; };\n' "$1" "$2" >"$runtime/$1.map"
  g++ -O1 -w -fPIC -shared "$runtime/$1.cc" -o "$runtime/lib$1.so.$2" -Wl,--version-script="$runtime/$1.map" -Wl,-soname,"lib$1.so.$2"
}
stub cublas 13 'cublas[A-KM-Z][A-Za-z0-9_]*'
stub cublasLt 13 'cublasLt[A-Za-z0-9_]*'
stub curand 10 'curand[A-Za-z0-9_]*'
ln -sfn "$(realpath "$site/nvidia/cu13/include")" "$build/pretended/include"
cmake --build "$build" --target cuda_pretended_runtime >/dev/null
LD_LIBRARY_PATH="$runtime:$build/pretended" "$venv/bin/python" -B "$here/sessions.py" "$build/libbitpress_ops.so" --pretended || failed=1

say "models of --target cuda on a pretended GPU"
LD_LIBRARY_PATH="$runtime:$build/pretended" "$venv/bin/python" -B "$here/placement.py" "$build/bitpress" "$build/libbitpress_ops.so" || failed=1

[ "$failed" = 0 ] && say "all passed"
exit "$failed"
