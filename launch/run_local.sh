#!/usr/bin/env bash
# Runs a binary on this machine, as one process or as several that work together, and runs it again where it was preempted.
#   launch/run_local.sh [--processes N] [--devices D] [--dry_run] BINARY [FLAG...]
#   BINARY       train, build_memory, eval, ...: python -m opql_jax.BINARY FLAG...; paths in its flags are as given
#   --processes  starts N processes, each line of whose output begins with [its number]; the first that ends with a code other
#                than 0 ends them all, and its code is that of the script (default: 1)
#   --devices    D devices in each process, which are virtual ones of the CPU
#   --dry_run    prints the commands, one on a line, and runs none of them
# Code 75 means that the processes were asked to stop and have saved their state: the same command is run again. Any other code
# is passed on. A TERM, INT or HUP to the script goes to the processes as TERM; then 75 is passed on too.
# Environment variables:
#   MAX_RESTARTS  how often code 75 starts the command again (default: 100)
#   GRACE         seconds between TERM and KILL (default: 60)
#   PORT          where the processes meet (default: a free one)
# Each of several processes finds in its environment, for jax.distributed.initialize:
#   OPQL_COORDINATOR  HOST:PORT, where process 0 coordinates
#   OPQL_PROCESSES    their number
#   OPQL_PROCESS      which one it is, from 0
# With one process these are not set, and are handed on where they are.

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

USAGE='usage: launch/run_local.sh [--processes N] [--devices D] [--dry_run] BINARY [FLAG...]'
# EX_TEMPFAIL
PREEMPTED=75
GRACE=${GRACE:-60}
MAX_RESTARTS=${MAX_RESTARTS:-100}
[[ $GRACE =~ ^[0-9]+$ && $MAX_RESTARTS =~ ^[0-9]+$ ]] ||
  fail "GRACE=$GRACE and MAX_RESTARTS=$MAX_RESTARTS have to be whole numbers"
processes=1
devices=
dry_run=
while [ $# -gt 0 ]; do
  case $1 in
    --processes=* | --devices=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" ;;
    --processes | --devices)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail "$1 needs a number, from 1"
      if [ "$1" = --processes ]; then processes=$2; else devices=$2; fi
      shift 2
      ;;
    --dry_run) dry_run=1; shift ;;
    -*) fail "unknown argument $1; $USAGE" ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || fail "name a binary; $USAGE"

free_port() {
  local port
  # Below those that the system hands out by itself.
  port=$((20000 + RANDOM % 12000))
  while (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
    port=$((20000 + RANDOM % 12000))
  done
  printf '%s\n' "$port"
}

# command_of I PORT BINARY [FLAG...]: sets COMMAND to the command of process I
command_of() {
  local variables=()
  if [ -n "$devices" ]; then
    variables+=(JAX_PLATFORMS=cpu "XLA_FLAGS=${XLA_FLAGS:+$XLA_FLAGS }--xla_force_host_platform_device_count=$devices")
  fi
  if [ "$processes" -gt 1 ]; then
    # Unbuffered, as the output of each goes through a pipe.
    variables+=(PYTHONUNBUFFERED=1 OPQL_COORDINATOR="127.0.0.1:$2" OPQL_PROCESSES="$processes" OPQL_PROCESS="$1")
  fi
  COMMAND=("$PYTHON" -m "opql_jax.$3" "${@:4}")
  if [ ${#variables[@]} -gt 0 ]; then
    COMMAND=(env "${variables[@]}" "${COMMAND[@]}")
  fi
}

if [ -n "$dry_run" ]; then
  quoted setup_env ''
  for ((i = 0; i < processes; i++)); do
    command_of "$i" "${PORT:-PORT}" "$@"
    quoted "${COMMAND[@]}"
  done
  exit
fi

setup_env ''
FOLDER=$(mktemp -d)
trap 'rm -rf -- "$FOLDER"' EXIT

# Processes that have not ended, and when they are killed.
pids=()
deadline=
stop() {
  if [ ${#pids[@]} -gt 0 ]; then
    kill -TERM "${pids[@]}" 2>/dev/null || true
  fi
  deadline=${deadline:-$((SECONDS + GRACE))}
}
asked_to_stop=
trap 'asked_to_stop=1; stop' TERM INT HUP

# attempt BINARY [FLAG...]: runs all processes once and sets CODE to 0, or to the first other code
attempt() {
  local i code port printers=()
  CODE=0
  deadline=
  port=${PORT:-$(free_port)}
  for ((i = 0; i < processes; i++)); do
    command_of "$i" "$port" "$@"
    if [ "$processes" -eq 1 ]; then
      "${COMMAND[@]}" &
      pids[i]=$!
    else
      # A pipe with a name: the process remains a child of this shell, which can then signal it and ask for its code.
      rm -f -- "$FOLDER/$i"
      mkfifo -- "$FOLDER/$i"
      (trap '' TERM INT HUP; exec sed -u "s/^/[$i] /" <"$FOLDER/$i") &
      printers+=("$!")
      "${COMMAND[@]}" >"$FOLDER/$i" 2>&1 &
      pids[i]=$!
    fi
  done
  # Asked before all had started.
  [ -z "$asked_to_stop" ] || stop
  while [ ${#pids[@]} -gt 0 ]; do
    for i in "${!pids[@]}"; do
      if ! kill -0 "${pids[i]}" 2>/dev/null; then
        code=0
        wait "${pids[i]}" || code=$?
        unset "pids[i]"
        if [ "$code" -ne 0 ] && [ "$CODE" -eq 0 ]; then
          CODE=$code
          stop
        fi
      fi
    done
    if [ -n "$deadline" ] && [ "$SECONDS" -ge "$deadline" ] && [ ${#pids[@]} -gt 0 ]; then
      kill -KILL "${pids[@]}" 2>/dev/null || true
    fi
    # A signal interrupts a wait, but not a sleep.
    sleep 0.2 &
    wait "$!" || true
  done
  for i in "${printers[@]}"; do
    wait "$i" || true
  done
}

for ((restarts = 0; ; restarts++)); do
  attempt "$@"
  if [ "$CODE" -ne "$PREEMPTED" ] || [ -n "$asked_to_stop" ]; then
    exit "$CODE"
  fi
  if [ "$restarts" -ge "$MAX_RESTARTS" ]; then
    say "$1 was preempted, and MAX_RESTARTS=$MAX_RESTARTS restarts are done"
    exit "$CODE"
  fi
  say "$1 was preempted: running it again ($((restarts + 1)) of at most $MAX_RESTARTS)"
done
