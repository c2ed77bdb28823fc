#!/usr/bin/env bash
# Runs a binary on all workers of a Cloud TPU that launch/setup_tpu.sh has made, and runs it again where it was preempted.
#   launch/run_tpu.sh [--all_logs] [--detach] [--dry_run] BINARY [FLAG...]
#   launch/run_tpu.sh [--dry_run] --logs [--all_logs] | --stop | --delete
#   BINARY      train, build_memory, eval, ...: python -m opql_jax.BINARY FLAG...; paths in its flags are those of the workers,
#               in ~/opql_jax where they are relative. What it writes has to be on storage that all workers see and that
#               outlives them
#   --all_logs  shows the output of all workers, each line with its host, and not only that of worker 0
#   --detach    starts it and returns: nothing restarts it then
#   --logs      shows the output of the job and waits for its end; interrupting this script always leaves the job running
#   --stop      asks the job to save its state and end
#   --delete    deletes the TPU, and its queued resource where it has one
#   --dry_run   prints the commands, one on a line, as for a TPU that is ready, and runs none of them
# On each worker the output goes to ~/opql_jax_jobs/JOB.log too, and OPQL_DISTRIBUTED=1 tells the binary to call
# jax.distributed.initialize, which finds the other workers by itself.
# Code 75 of the job (it was asked to stop, and has saved its state), or a worker that lost it, starts it again; a TPU that was
# preempted is first created again by launch/setup_tpu.sh, with the same commit. Any other code is that of this script.
# Environment variables: those of launch/setup_tpu.sh, and
#   COMMIT        the commit that the TPU has to have (default: HEAD)
#   MAX_RESTARTS  how often the job is started again (default: 100); an attempt to create the TPU counts
#   GRACE         seconds between TERM and KILL (default: 60)
#   POLL          seconds between looks at the job and the TPU (default: 30)

# shellcheck source=launch/tpu.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/tpu.sh"

USAGE='usage: launch/run_tpu.sh [--all_logs] [--detach] [--dry_run] BINARY [FLAG...], or one of --logs, --stop, --delete'
MAX_RESTARTS=${MAX_RESTARTS:-100}
[[ $GRACE =~ ^[0-9]+$ && $POLL =~ ^[0-9]+$ && $MAX_RESTARTS =~ ^[0-9]+$ ]] ||
  fail "GRACE=$GRACE, POLL=$POLL and MAX_RESTARTS=$MAX_RESTARTS have to be whole numbers"
# Looks in a row at which the workers may not answer, or some of them have ended and others have not.
PATIENCE=10
action=
detach=
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
    *) break ;;
  esac
  shift
done
if [ -n "$action" ]; then
  [ $# -eq 0 ] || fail "$action takes no binary; $USAGE"
else
  [ $# -gt 0 ] || fail "name a binary; $USAGE"
fi
place

# verdict CODE...: sets ENDED to what the codes of the workers come to, or to nothing where all run
verdict() {
  local code
  ENDED=
  for code in "$@"; do
    case $code in
      running) ;;
      stopped)
        ENDED=stopped
        return
        ;;
      75 | lost) ENDED=again ;;
      0) ENDED=${ENDED:-0} ;;
      *) [ "${ENDED:-0}" != 0 ] || ENDED=$code ;;
    esac
  done
}

FOLLOWER=
start_following() {
  # In a process group of its own, so that it can be ended with what it has started.
  set -m
  on_workers "${follow[@]}" </dev/null &
  FOLLOWER=$!
  set +m
}

stop_following() {
  if [ -n "$FOLLOWER" ]; then
    kill -- "-$FOLLOWER" 2>/dev/null || true
    wait "$FOLLOWER" 2>/dev/null || true
    FOLLOWER=
  fi
}

# watch: shows the output of the job until it has ended on all workers, and sets ENDED to its exit code, or to
#   stopped (by --stop), again (it saved its state, or a worker lost it) or preempted (the TPU is gone)
watch() {
  local codes waited broken='' strange=0
  if [ -n "$DRY_RUN" ]; then
    on_workers "${follow[@]}"
    look READY
    on_workers all worker_status
    ENDED=0
    return
  fi
  trap 'stop_following; say "the job goes on: launch/run_tpu.sh --logs shows it, --stop ends it"; exit 130' INT TERM HUP
  start_following
  while :; do
    for ((waited = 0; waited < POLL; waited++)); do
      sleep 1
      if [ -n "$FOLLOWER" ] && ! kill -0 "$FOLLOWER" 2>/dev/null; then
        if wait "$FOLLOWER"; then
          # The job has ended there, which is worth a look.
          FOLLOWER=
          break
        fi
        FOLLOWER=
        broken=1
      fi
    done
    codes=
    if look READY; then
      if [ "$STATE" != READY ]; then
        ENDED=preempted
        break
      fi
      codes=$(on_workers all worker_status) || codes=
    fi
    # shellcheck disable=SC2086  # one word for each worker
    verdict $codes
    case "$codes" in
      '') ;;
      *running*)
        # A worker that has ended well may leave work to another; one that has failed leaves the others waiting for it.
        if [ "${ENDED:-0}" = 0 ]; then
          strange=0
          if [ -n "$broken" ]; then
            start_following
            broken=
          fi
          continue
        fi
        ;;
      *) break ;;
    esac
    strange=$((strange + 1))
    if [ "$strange" -ge "$PATIENCE" ]; then
      [ -n "$codes" ] || fail "the workers of $TPU_NAME do not answer; --logs tries again"
      break
    fi
  done
  if [ "$ENDED" != preempted ] && [ -n "$FOLLOWER" ]; then
    # Its last lines.
    sleep 2
  fi
  stop_following
  trap - INT TERM HUP
}

case $action in
  --stop)
    on_workers all worker_stop "$GRACE"
    exit
    ;;
  --delete)
    look READY
    [ "$STATE" != ABSENT ] || fail "there is no TPU $TPU_NAME in $ZONE"
    delete_tpu
    exit
    ;;
  --logs)
    watch
    case $ENDED in
      stopped) fail 'the job was stopped with --stop' ;;
      again | preempted)
        say "the job is to be run again: launch/run_tpu.sh BINARY [FLAG...]"
        exit 75
        ;;
    esac
    exit "$ENDED"
    ;;
esac

[ -n "$detach" ] || machine
if [ -z "${COMMIT-}" ] && [ -n "$(git -C "$ROOT" status --porcelain)" ]; then
  say 'there are uncommitted changes, which are not on the TPU' >&2
fi
wanted=${COMMIT:-HEAD}
COMMIT=$(git -C "$ROOT" rev-parse --verify --quiet "$wanted^{commit}") || fail "no commit $wanted in $ROOT"
export COMMIT
look READY
queued=${QUEUED-}
ENDED=
if [ "$STATE" != READY ]; then
  [ "$STATE" != ABSENT ] && [ -z "$detach" ] || fail "$TPU_NAME is $STATE: launch/setup_tpu.sh creates it"
  ENDED=preempted
fi

job=
for ((restarts = 0; restarts <= MAX_RESTARTS; restarts++)); do
  if [ "$restarts" -gt 0 ]; then
    say "$1: $WHY; starting it again ($restarts of at most $MAX_RESTARTS)"
  fi
  if [ "$ENDED" = preempted ]; then
    WHY='the TPU could not be made ready'
    if ! "$ROOT/launch/setup_tpu.sh" ${queued:+"$queued"}; then
      sleep "$POLL"
      continue
    fi
  elif [ "$ENDED" = again ]; then
    on_workers all worker_stop "$GRACE" "$job" || true
  fi
  job=JOB
  [ -n "$DRY_RUN" ] || job=$(date -u +%Y%m%d-%H%M%S)-$$-$restarts
  if ! on_workers all worker_start "$job" "$COMMIT" "$@"; then
    # Where some have started, they wait for the others.
    on_workers all worker_stop "$GRACE" "$job" || true
    [ "$restarts" -gt 0 ] || exit 1
    WHY='it could not be started'
    ENDED=preempted
    sleep "$POLL"
    continue
  fi
  if [ -n "$detach" ]; then
    [ -n "$DRY_RUN" ] || say "$1 runs as job $job: launch/run_tpu.sh --logs shows it, --stop ends it"
    exit
  fi
  watch
  case $ENDED in
    again) WHY='it was interrupted' ;;
    preempted) WHY='the TPU was preempted' ;;
    stopped) fail "$1 was stopped with --stop" ;;
    0) exit ;;
    *)
      # Where one has failed, others may wait for it.
      on_workers all worker_stop "$GRACE" "$job" || true
      say "$1 ended with code $ENDED; the logs are ~/opql_jax_jobs/$job.log on each worker" >&2
      exit "$ENDED"
      ;;
  esac
done
say "$1 is to be run again, and MAX_RESTARTS=$MAX_RESTARTS restarts are done" >&2
exit 75
