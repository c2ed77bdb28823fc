# shellcheck shell=bash
# What setup_tpu.sh and run_tpu.sh share. The commands that they send to a TPU's workers source it there too: functions named
# worker_* run on a worker, whose checkout is ~/opql_jax. In ~/opql_jax_jobs it keeps the output of each job (JOB.log), its exit
# code (JOB.code), JOB.stopped if it was asked to stop, and the name and process of the last one (current).

# shellcheck source=launch/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

DRY_RUN=
POLL=${POLL:-30}
GRACE=${GRACE:-60}
SLICES=${SLICES:-1}
JOBS=${ROOT%/*}/opql_jax_jobs

[[ $GRACE =~ ^[0-9]+$ && $POLL =~ ^[0-9]+$ ]] || fail "GRACE=$GRACE and POLL=$POLL have to be whole numbers"

# Checks the variables that name the TPU. NODES become the names of its slices.
place() {
  local slice
  need TPU_NAME my-tpu
  need PROJECT my-project
  need ZONE us-west4-a
  [[ $SLICES =~ ^[1-9][0-9]*$ ]] || fail "SLICES=$SLICES has to be a whole number of at least 1"
  PLACE=(--project="$PROJECT" --zone="$ZONE")
  read -ra CONNECT <<<"${CONNECT_FLAGS-}"
  NODES=("$TPU_NAME")
  for ((slice = 0; SLICES > 1 && slice < SLICES; slice++)); do NODES[slice]=$TPU_NAME-$slice; done
  [ -n "$DRY_RUN" ] || command -v gcloud >/dev/null ||
    fail 'no gcloud on PATH: install the Google Cloud CLI, and sign in with gcloud auth login'
}

# Checks the variables that say what to create. COMMIT becomes a hash (default: HEAD's), CHANGES what is not committed.
# shellcheck disable=SC2034
machine() {
  local name=${COMMIT:-HEAD}
  need TPU_TYPE v5litepod-8
  need RUNTIME_VERSION v2-alpha-tpuv5-lite
  CHANGES=$([ -n "${COMMIT-}" ] || git -C "$ROOT" status --porcelain) || fail "$ROOT is no git checkout"
  COMMIT=$(git -C "$ROOT" rev-parse --verify --quiet "$name^{commit}") || fail "no commit $name in $ROOT"
}

# run COMMAND...: runs it, or prints it in a dry run.
run() { if [ -n "$DRY_RUN" ]; then quoted "$@"; else "$@"; fi; }

# look STATE: sets STATE to READY if all slices are, else to that of another one, or where none is there to that of the queued
# resource of the same name, or to ABSENT; and QUEUED to --queued where there is a queued resource. A dry run takes the given
# STATE for granted.
# shellcheck disable=SC2034
look() {
  local vm queue list=(list "${PLACE[@]}") slice=
  [ "$SLICES" -eq 1 ] || slice='-[0-9]+'
  # Listed, as describing one that is absent is an error like any other.
  vm=$(run gcloud compute tpus tpu-vm "${list[@]}" --filter="name~/$TPU_NAME$slice\$" --format='value(state)') || return
  queue=$(run gcloud compute tpus queued-resources "${list[@]}" --filter="name~/$TPU_NAME\$" --format='value(state.state)') || return
  if [ -n "$DRY_RUN" ]; then
    printf '%s\n' "$vm" "$queue"
    STATE=$1
  else
    STATE=$(grep -vxm 1 READY <<<"$vm") || [ "$(wc -l <<<"$vm")" -ne "$SLICES" ] || STATE=READY
    STATE=${STATE:-${queue:-ABSENT}}
    QUEUED=${queue:+--queued}
  fi
}

# on_node NODE WORKER FLAG...: runs the command that a flag says on workers of a slice.
on_node() {
  run gcloud compute tpus tpu-vm ssh "$1" "${PLACE[@]}" ${CONNECT[@]+"${CONNECT[@]}"} --worker="$2" --quiet "${@:3}"
}

# on_workers WORKER COMMAND...: runs a command on one worker (0, 1, ...) of the first slice, or on all of all slices at once.
on_workers() {
  local node command process processes=() code=0 nodes=("${NODES[@]}")
  [ "$1" = all ] || nodes=("${NODES[0]}")
  for node in "${nodes[@]}"; do
    # A connection to a machine that is gone is to break, and not to wait.
    command=(on_node "$node" "$1" --ssh-flag=-oServerAliveInterval=30 --command="source opql_jax/launch/tpu.sh && $(quoted "${@:2}")")
    # What a dry run prints stays in order, and Ctrl-C reaches what runs in the foreground.
    if [ -n "$DRY_RUN" ] || [ ${#nodes[@]} -eq 1 ]; then
      "${command[@]}" || code=$?
      continue
    fi
    "${command[@]}" &
    processes+=("$!")
  done
  for process in ${processes[@]+"${processes[@]}"}; do wait "$process" || code=$?; done
  return "$code"
}

delete_tpu() {
  local kind=(tpu-vm delete "$TPU_NAME")
  [ -z "${QUEUED-}" ] || kind=(queued-resources delete "$TPU_NAME" --force)
  run gcloud compute tpus "${kind[@]}" "${PLACE[@]}" --quiet
}

# worker_install COMMIT: makes the environment, and notes which commit the checkout is.
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
worker_job() { [ -f "$JOBS/current" ] && read -r ID PID <"$JOBS/current"; }

# Where nothing reaps it, the process of a job that has ended can still be signalled.
worker_runs() { worker_job && [ ! -f "$JOBS/$ID.code" ] && kill -0 "$PID" 2>/dev/null; }

# Prints running, stopped (by worker_stop), the exit code, or lost where there is none.
worker_status() {
  if worker_runs; then echo running
  elif [ -f "$JOBS/${ID-}.stopped" ]; then echo stopped
  else cat -- "$JOBS/${ID-}.code" 2>/dev/null || echo lost; fi
}

# worker_start JOB COMMIT [NAME=VALUE...] BINARY [FLAG...]: starts the binary in the background, with these environment variables.
worker_start() {
  local job=$1 commit=$2 variables=() here
  shift 2
  while [[ $1 == *=* ]]; do variables+=("$1"); shift; done
  # gcloud repeats a command whose connection broke, which is not to start a second job.
  [ ! -f "$JOBS/$job.log" ] || return 0
  here=$(cat "$ROOT/.commit" 2>/dev/null || echo none)
  [ "$here" = "$commit" ] || fail "the TPU has commit $here, and not $commit: launch/setup_tpu.sh installs it"
  ! worker_runs || fail "a job is running: launch/run_tpu.sh --logs shows it, --stop ends it"
  cd -- "$ROOT"
  mkdir -p -- "$JOBS"
  # A session of its own, which outlives the connection and can be signalled as a whole. Its shell stays, to note the code.
  # shellcheck disable=SC2016
  PYTHONUNBUFFERED=1 OPQL_DISTRIBUTED=1 setsid bash -c 'trap : TERM
    code=0
    "${@:2}" || code=$?
    printf "%s\n" "$code" >"$1.partial" && mv -- "$1.partial" "$1"' job "$JOBS/$job.code" \
    env ${variables[@]+"${variables[@]}"} "$PYTHON" -m "opql_jax.$1" "${@:2}" >"$JOBS/$job.log" 2>&1 </dev/null &
  printf '%s %s\n' "$job" "$!" >"$JOBS/current"
}

# worker_follow [all]: prints the job's log as it grows, until the job ends; with all, each line with the host.
worker_follow() {
  worker_job || fail "there is no job on $(hostname)"
  (while worker_runs; do sleep 1; done) &
  tail -n 200 -f --pid="$!" -- "$JOBS/$ID.log" | sed -u "s/^/${1:+$(hostname): }/"
}

# worker_stop GRACE [JOB]: TERM to the job that runs, if it is JOB, and KILL after GRACE seconds.
worker_stop() {
  local waited
  worker_runs && [ "${2:-$ID}" = "$ID" ] || return 0
  : >"$JOBS/$ID.stopped"
  kill -TERM -- "-$PID" || true
  for ((waited = 0; waited < $1; waited++)); do
    worker_runs || return 0
    sleep 1
  done
  kill -KILL -- "-$PID" 2>/dev/null || true
  echo 137 >"$JOBS/$ID.code"
}
