#!/usr/bin/env bash
# Runs a binary on a machine with NVIDIA GPUs, or on several together: the environment gets the cuda extra, and on each machine
# one process drives all of its GPUs. Where there is none, it fails instead of computing on the CPU.
#   launch/run_gpu.sh [--dry_run] BINARY [FLAG...]
#   --dry_run  prints the commands, one on a line, and runs none of them
# Output, restarts and their environment variables are those of launch/run_local.sh, which it ends in.
# For several machines run it on each, with these variables (launch/slurm.sbatch does so under Slurm). WORKDIR and other folders
# that are written have to be on storage that all of them see.
#   NODES        how many machines there are
#   NODE_RANK    which one this is, from 0
#   COORDINATOR  HOST:PORT; the host is machine 0, by a name that all of them know, and nothing else uses the port

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

dry_run=
if [ "${1-}" = --dry_run ]; then
  dry_run=1
  shift
fi
case ${1-} in
  '' | -*) fail "name a binary; usage: launch/run_gpu.sh [--dry_run] BINARY [FLAG...]" ;;
esac

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
command=(env "${variables[@]}" "$ROOT/launch/run_local.sh" "$@")
if [ -n "$dry_run" ]; then
  quoted setup_env cuda
  quoted "${command[@]}"
  exit
fi
# JAX itself would not complain of a machine without a GPU.
nvidia-smi -L >/dev/null || fail 'nvidia-smi finds no GPU; launch/run_local.sh runs on the CPU'
setup_env cuda
exec "${command[@]}"
