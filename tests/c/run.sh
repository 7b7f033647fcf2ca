#!/bin/sh
# Builds the kernels and tests/c/test_*.c in a folder and runs the programs with every instruction set that
# this processor has: run.sh FOLDER [--aarch64] [CMake options]. With --aarch64 it runs under qemu-user, or is
# skipped where Debian's cross compiler or qemu-user is missing.
set -eu
cd "$(dirname "$0")/../.."
folder=$1
shift
runner=
if [ "${1:-}" = --aarch64 ]; then
    shift
    prefix=aarch64-linux-gnu
    if ! command -v $prefix-g++ >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
        echo "skipped: needs $prefix-g++ and qemu-aarch64 (Debian: g++-$prefix qemu-user)"
        exit 0
    fi
    set -- "$@" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
        -DCMAKE_C_COMPILER=$prefix-gcc -DCMAKE_CXX_COMPILER=$prefix-g++
    runner="qemu-aarch64 -L /usr/$prefix"
fi
PATH="$PWD/.venv/bin:$PATH"
cmake -S . -B "$folder" -DMHC_TESTS=ON "$@" >/dev/null
cmake --build "$folder" --parallel 2 >/dev/null
for isa in avx512 avx2 baseline; do
    for program in test_pre test_post test_post_pre test_sinkhorn test_lite test_aclnn; do
        status=0
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
            MHC_OPS_ISA=$isa $runner "$folder/$program" || status=$?
        [ $status = 0 ] || [ $status = 2 ] || exit $status
    done
done
