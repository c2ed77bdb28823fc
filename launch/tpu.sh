# shellcheck shell=bash
# What setup_tpu.sh and run_tpu.sh share: sourced by both here, and by the commands that they send to the workers of a TPU.
#
# Here:
#   look STATE          sets STATE and QUEUED to what the TPU is; a dry run prints the commands and takes STATE for granted
#   run COMMAND...      runs a command, or prints it in a dry run
#   on_workers WORKER COMMAND...   runs a command, such as those below, on a worker (0, 1, ... or all)
#   delete_tpu          deletes the TPU, and its queued resource where it has one
# On a worker, whose checkout is ~/opql_jax and whose logs are in ~/opql_jax_jobs:
#   worker_install COMMIT                 makes the environment, and notes which commit the checkout is
#   worker_start JOB COMMIT BINARY [FLAG...]   starts the binary in the background: output to JOB.log, code to JOB.code
#   worker_follow [all]                   prints the job's log as it grows, until it ends; with all, each line with the host
#   worker_status                         prints running, stopped (by worker_stop), lost, or the exit code
#   worker_stop GRACE [JOB]               TERM to the job that runs, if it is JOB, and KILL after GRACE seconds

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DRY_RUN=
POLL=${POLL:-30}
GRACE=${GRACE:-60}
JOBS=${ROOT%/*}/opql_jax_jobs

# Checks the variables that name the TPU, and those that say what to create.
place() {
  need TPU_NAME my-tpu
  need PROJECT my-project
  need ZONE us-west4-a
  PLACE=(--project="$PROJECT" --zone="$ZONE")
  [ -n "$DRY_RUN" ] || command -v gcloud >/dev/null ||
    fail 'no gcloud on PATH: install the Google Cloud CLI, and sign in with gcloud auth login'
}

machine() {
  need TPU_TYPE v5litepod-8
  need RUNTIME_VERSION v2-alpha-tpuv5-lite
}

run() {
  if [ -n "$DRY_RUN" ]; then
    quoted "$@"
  else
    "$@"
  fi
}

# Lists, as describing what is not there is an error like any other. STATE becomes that of the VM, or without one that of the
# queued resource of the same name, or ABSENT; QUEUED becomes --queued where there is a queued resource.
# shellcheck disable=SC2034
look() {
  local vm queue filter="name~/$TPU_NAME\$"
  local machines=(gcloud compute tpus tpu-vm list "${PLACE[@]}" --filter="$filter" --format='value(state)')
  local requests=(gcloud compute tpus queued-resources list "${PLACE[@]}" --filter="$filter" --format='value(state.state)')
  if [ -n "$DRY_RUN" ]; then
    quoted "${machines[@]}"
    quoted "${requests[@]}"
    STATE=$1
    return
  fi
  vm=$("${machines[@]}") || return
  queue=$("${requests[@]}") || return
  STATE=${vm:-${queue:-ABSENT}}
  QUEUED=${queue:+--queued}
}

on_workers() {
  local worker=$1
  shift
  # A connection to a machine that is gone is to break, and not to wait.
  run gcloud compute tpus tpu-vm ssh "$TPU_NAME" "${PLACE[@]}" --worker="$worker" --quiet --ssh-flag=-oServerAliveInterval=30 \
    --command="source opql_jax/launch/tpu.sh && $(quoted "$@")"
}

delete_tpu() {
  if [ -n "${QUEUED-}" ]; then
    run gcloud compute tpus queued-resources delete "$TPU_NAME" "${PLACE[@]}" --force --quiet
  else
    run gcloud compute tpus tpu-vm delete "$TPU_NAME" "${PLACE[@]}" --quiet
  fi
}

worker_install() {
  if ! (find_python) >/dev/null 2>&1; then
    say "installing Python 3.11, as this image has none of at least that"
    sudo add-apt-repository -y ppa:deadsnakes/ppa
    sudo DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y python3.11-venv
  fi
  setup_env tpu,gcs
  printf '%s\n' "$1" >"$ROOT/.commit"
}

# Sets ID and PID to those of the last job; fails where there is none.
worker_job() {
  [ -f "$JOBS/current" ] && read -r ID PID <"$JOBS/current"
}

# Where nothing reaps it, the process of a job that has ended can still be signalled.
worker_runs() {
  [ ! -f "$JOBS/$ID.code" ] && kill -0 "$PID" 2>/dev/null
}

worker_status() {
  if ! worker_job; then
    echo lost
  elif worker_runs; then
    echo running
  elif [ -f "$JOBS/$ID.stopped" ]; then
    echo stopped
  elif [ -f "$JOBS/$ID.code" ]; then
    cat -- "$JOBS/$ID.code"
  else
    echo lost
  fi
}

worker_start() {
  local job=$1 commit=$2 here
  # gcloud repeats a command whose connection broke, which is not to start a second job.
  [ ! -f "$JOBS/$job.log" ] || return 0
  here=$(cat "$ROOT/.commit" 2>/dev/null || echo none)
  [ "$here" = "$commit" ] || fail "the TPU has commit $here, and not $commit: launch/setup_tpu.sh installs it"
  [ "$(worker_status)" != running ] || fail "a job is running: launch/run_tpu.sh --logs shows it, --stop ends it"
  cd -- "$ROOT"
  mkdir -p -- "$JOBS"
  # A session of its own, which outlives the connection and can be signalled as a whole. Its shell stays, to note the code.
  # shellcheck disable=SC2016
  PYTHONUNBUFFERED=1 OPQL_DISTRIBUTED=1 setsid bash -c 'trap : TERM
    code=0
    "${@:2}" || code=$?
    printf "%s\n" "$code" >"$1.partial" && mv -- "$1.partial" "$1"' job "$JOBS/$job.code" \
    "$PYTHON" -m "opql_jax.$3" "${@:4}" >"$JOBS/$job.log" 2>&1 </dev/null &
  printf '%s %s\n' "$job" "$!" >"$JOBS/current"
}

worker_follow() {
  worker_job || fail "there is no job on $(hostname)"
  (
    while worker_runs; do
      sleep 1
    done
  ) &
  tail -n 200 -f --pid="$!" -- "$JOBS/$ID.log" | sed -u "s/^/${1:+$(hostname): }/"
}

worker_stop() {
  local waited
  if ! worker_job || ! worker_runs || [ "${2:-$ID}" != "$ID" ]; then
    return 0
  fi
  : >"$JOBS/$ID.stopped"
  kill -TERM -- "-$PID" || true
  for ((waited = 0; waited < $1; waited++)); do
    worker_runs || return 0
    sleep 1
  done
  kill -KILL -- "-$PID" 2>/dev/null || true
  echo 137 >"$JOBS/$ID.code"
}
