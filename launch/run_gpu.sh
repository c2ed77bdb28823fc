#!/usr/bin/env bash
# Runs a binary on a machine with NVIDIA GPUs, or on several together, and runs it again where it was preempted. The environment
# gets the cuda extra, and on each machine one process drives all GPUs. Without a GPU it fails instead of computing on the CPU.
#   launch/run_gpu.sh [--dry_run] BINARY [FLAG...]
#   BINARY     train, build_memory, eval, ...: python -m opql_jax.BINARY FLAG...; paths in its flags are as given
#   --dry_run  prints the commands, one on a line, and runs none of them
# Code 75 means that the process was asked to stop and has saved its state: the same command is run again, MAX_RESTARTS times at
# most (default: 100). Any other code is passed on. A TERM, INT or HUP goes to the process as TERM; then 75 is passed on too.
# For several machines run it on each, with these variables (launch/slurm.sbatch does so under Slurm). What is written has to be
# on storage that all of them see.
#   NODES        how many machines there are
#   NODE_RANK    which one this is, from 0
#   COORDINATOR  HOST:PORT; the host is machine 0, by a name that all of them know, and nothing else uses the port

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

dry_run=
[ "${1-}" != --dry_run ] || { dry_run=1; shift; }
[[ ${1:--} != -* ]] || fail "name a binary${1:+, not $1}; usage: launch/run_gpu.sh [--dry_run] BINARY [FLAG...]"
MAX_RESTARTS=${MAX_RESTARTS:-100}
[[ $MAX_RESTARTS =~ ^[0-9]+$ ]] || fail "MAX_RESTARTS=$MAX_RESTARTS is not a whole number"

# Named, a platform that does not work is an error, and no warning.
variables=(JAX_PLATFORMS="${JAX_PLATFORMS:-cuda,cpu}")
if [ "${NODES:-1}" != 1 ]; then
  need NODE_RANK 0
  need COORDINATOR node-0.example.org:12345
  [[ $NODES =~ ^[1-9][0-9]*$ ]] || fail "NODES=$NODES is not a number from 1"
  [[ $NODE_RANK =~ ^[0-9]+$ && $NODE_RANK -lt $NODES ]] || fail "NODE_RANK=$NODE_RANK is not a number from 0 to $((NODES - 1))"
  [[ $COORDINATOR =~ ^.+:[0-9]+$ ]] || fail "COORDINATOR=$COORDINATOR is not HOST:PORT; for example: COORDINATOR=node-0:12345"
  variables+=(OPQL_COORDINATOR="$COORDINATOR" OPQL_PROCESSES="$NODES" OPQL_PROCESS="$NODE_RANK")
fi
command=(env "${variables[@]}" "$PYTHON" -m "opql_jax.$1" "${@:2}")
if [ -n "$dry_run" ]; then
  quoted setup_env cuda
  quoted "${command[@]}"
  exit
fi
# JAX itself would not complain of a machine without a GPU.
nvidia-smi -L >/dev/null || fail "nvidia-smi finds no GPU; on a CPU run the binary itself: python -m opql_jax.$1"
setup_env cuda

child=
asked_to_stop=
stop() { [ -z "$child" ] || kill -TERM "$child" 2>/dev/null || true; }
trap 'asked_to_stop=1; stop' TERM INT HUP
for ((restarts = 0; ; restarts++)); do
  "${command[@]}" &
  child=$!
  # Asked before it had started.
  [ -z "$asked_to_stop" ] || stop
  # A signal interrupts a wait; the last one gets the code of the process.
  while kill -0 "$child" 2>/dev/null; do wait "$child" || true; done
  code=0
  wait "$child" || code=$?
  [ "$code" -eq 75 ] && [ -z "$asked_to_stop" ] && [ "$restarts" -lt "$MAX_RESTARTS" ] || exit "$code"
  say "$1 was preempted: running it again ($((restarts + 1)) of at most $MAX_RESTARTS)"
done
