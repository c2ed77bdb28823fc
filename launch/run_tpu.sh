#!/usr/bin/env bash
# Runs a binary on all workers of a Cloud TPU that launch/setup_tpu.sh has made, and runs it again where it was preempted.
#   launch/run_tpu.sh [--all_logs] [--detach] [--dry_run] [NAME=VALUE...] BINARY [FLAG...]
#   launch/run_tpu.sh [--dry_run] --logs [--all_logs] | --stop | --delete
#   BINARY      train, build_memory, eval, ...: python -m opql_jax.BINARY FLAG..., in ~/opql_jax on each worker. What it writes
#               has to be on storage that all workers see and that outlives them
#   NAME=VALUE  an environment variable of the binary, such as LIBTPU_INIT_ARGS=...
#   --all_logs  shows the output of all workers, each line with its host, and not only that of worker 0
#   --detach    starts it and returns: nothing restarts it then
#   --logs      shows the output of the job and waits for its end; interrupting this script always leaves the job running
#   --stop      asks the job to save its state and end
#   --delete    deletes the TPU, and its queued resource where it has one
#   --dry_run   prints the commands, one on a line, as for a TPU that is ready, and runs none of them
# On each worker the output goes to ~/opql_jax_jobs/JOB.log too, and OPQL_DISTRIBUTED=1 makes JAX find the other workers.
# Code 75 of the job (it saved its state when asked to stop), or a worker that lost it, starts it again; a preempted TPU is
# first created again by launch/setup_tpu.sh, with the same commit. Any other code is that of this script.
# Environment variables: those of launch/setup_tpu.sh, where COMMIT is the commit that the TPU has to have, and
#   MAX_RESTARTS  how often the job is started again (default: 100); an attempt to create the TPU counts
#   GRACE         seconds between TERM and KILL (default: 60)
#   POLL          seconds between looks at the job and the TPU (default: 30)

# shellcheck source=launch/tpu.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/tpu.sh"

USAGE='usage: launch/run_tpu.sh [--all_logs] [--detach] [--dry_run] [NAME=VALUE...] BINARY [FLAG...], or one of --logs, --stop, --delete'
MAX_RESTARTS=${MAX_RESTARTS:-100}
[[ $MAX_RESTARTS =~ ^[0-9]+$ ]] || fail "MAX_RESTARTS=$MAX_RESTARTS has to be a whole number"
# Looks in a row at which the workers may not answer, or some of them have ended and others have not.
PATIENCE=10
action=
detach=
variables=()
follow=(0 worker_follow)
while [ $# -gt 0 ]; do
  case $1 in
    --all_logs) follow=(all worker_follow all) ;;
    --detach) detach=1 ;;
    --dry_run) DRY_RUN=1 ;;
    --logs | --stop | --delete)
      [ -z "$action" ] || fail "$action and $1 together; $USAGE"
      action=$1
      ;;
    -*) fail "unknown argument $1; $USAGE" ;;
    *=*) variables+=("$1") ;;
    *) break ;;
  esac
  shift
done
[ -n "$action" ] || [ $# -gt 0 ] || fail "name a binary; $USAGE"
[ -z "$action" ] || [ $(($# + ${#variables[@]})) -eq 0 ] || fail "$action takes no binary; $USAGE"
place

# STATUSES becomes what each worker says of the job, or nothing where one does not answer; ENDED what that comes to: preempted
# (the TPU is gone), stopped (by --stop), again (a worker was preempted, or lost the job), a failure's code, 0, or nothing.
look_at_job() {
  local code
  ENDED='' STATUSES=''
  look READY || return 0
  [ "$STATE" = READY ] || { ENDED=preempted; return; }
  STATUSES=" $(on_workers all worker_status | tr '\n' ' ')" || STATUSES=''
  case $STATUSES in
    *' stopped '*) ENDED=stopped ;;
    *' 75 '* | *' lost '*) ENDED=again ;;
    *) for code in ${STATUSES//running/}; do [ "${ENDED:-0}" != 0 ] || ENDED=$code; done ;;
  esac
}

FOLLOWER=
stop_following() { [ -z "$FOLLOWER" ] || kill -- "-$FOLLOWER" 2>/dev/null || true; }

# Shows the output of the job until it has ended, and sets ENDED; exits if all went well, or --stop was called.
watch() {
  local waited odd=0
  if [ -n "$DRY_RUN" ]; then
    on_workers "${follow[@]}"
    look READY
    on_workers all worker_status
    exit
  fi
  trap 'stop_following; say "the job goes on: launch/run_tpu.sh --logs shows it, --stop ends it"; exit 130' INT TERM HUP
  while [ "$odd" -lt "$PATIENCE" ]; do
    if [ "$odd" -eq 0 ] && ! kill -0 "$FOLLOWER" 2>/dev/null; then
      # In a process group of its own, so that it can be ended with what it has started.
      set -m
      on_workers "${follow[@]}" </dev/null &
      FOLLOWER=$!
      set +m
    fi
    for ((waited = 0; waited < POLL; waited++)); do
      sleep 1
      # It ends with the job there, which is worth a look, or with the connection.
      [ "$odd" -gt 0 ] || kill -0 "$FOLLOWER" 2>/dev/null || break
    done
    look_at_job
    if [ "$ENDED" = preempted ] || [[ -n $STATUSES && $STATUSES != *running* ]]; then break; fi
    # A worker that has ended well may leave work to another; one that has failed leaves the others waiting for it.
    odd=$((odd + 1))
    [ -z "$STATUSES" ] || [ "${ENDED:-0}" != 0 ] || odd=0
  done
  # Its last lines.
  ! kill -0 "$FOLLOWER" 2>/dev/null || sleep 2
  stop_following
  trap - INT TERM HUP
  case $ENDED in
    '') fail "the workers of $TPU_NAME do not answer; --logs tries again" ;;
    0) exit ;;
    stopped) fail 'the job was stopped with --stop' ;;
  esac
}

case $action in
  --stop) on_workers all worker_stop "$GRACE"; exit ;;
  --delete)
    look READY
    [ "$STATE" != ABSENT ] || fail "there is no TPU $TPU_NAME in $ZONE"
    delete_tpu
    exit
    ;;
  --logs)
    watch
    [[ ! $ENDED =~ ^[0-9]+$ ]] || exit "$ENDED"
    say "the job is to be run again: launch/run_tpu.sh BINARY [FLAG...]"
    exit 75
    ;;
esac

machine
export COMMIT
[ -z "$CHANGES" ] || say 'there are uncommitted changes, which are not on the TPU' >&2
look READY
ENDED=
if [ "$STATE" != READY ]; then
  [ "$STATE" != ABSENT ] && [ -z "$detach" ] || fail "$TPU_NAME is $STATE: launch/setup_tpu.sh creates it"
  ENDED=preempted
fi

for ((restarts = 0; restarts <= MAX_RESTARTS; restarts++)); do
  if [ "$restarts" -gt 0 ]; then
    say "$1: $WHY; starting it again ($restarts of at most $MAX_RESTARTS)"
    sleep "$POLL"
  fi
  if [ "$ENDED" = preempted ] && ! "$ROOT/launch/setup_tpu.sh" ${QUEUED:+"$QUEUED"}; then
    WHY='the TPU could not be made ready'
    continue
  fi
  job=JOB
  [ -n "$DRY_RUN" ] || job=$(date -u +%Y%m%d-%H%M%S)-$$-$restarts
  if on_workers all worker_start "$job" "$COMMIT" ${variables[@]+"${variables[@]}"} "$@"; then
    if [ -n "$detach" ]; then
      [ -n "$DRY_RUN" ] || say "$1 runs as job $job: launch/run_tpu.sh --logs shows it, --stop ends it"
      exit
    fi
    watch
    WHY='it was interrupted'
    [ "$ENDED" != preempted ] || WHY='the TPU was preempted'
  else
    WHY='it could not be started'
    ENDED=preempted
    [ "$restarts" -gt 0 ] || ENDED=1
  fi
  # Where one has ended, or did not start, others wait for it.
  on_workers all worker_stop "$GRACE" "$job" || true
  if [[ $ENDED =~ ^[0-9]+$ ]]; then
    say "$1 ended with code $ENDED; the logs are ~/opql_jax_jobs/$job.log on each worker" >&2
    exit "$ENDED"
  fi
done
say "$1 is to be run again, and MAX_RESTARTS=$MAX_RESTARTS restarts are done" >&2
exit 75
