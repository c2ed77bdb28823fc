#!/usr/bin/env bash
# Creates a Cloud TPU VM, or uses the one of that name, and installs this checkout on all of its workers. Needs gcloud, signed
# in, and for a TPU of several workers its SSH key in an agent (ssh-add ~/.ssh/google_compute_engine).
# Running it again installs anew, and keeps the environment and ~/opql_jax/runs.
#   launch/setup_tpu.sh [--queued] [--dry_run]
#   --queued   asks for the TPU as a queued resource of the same name, and waits until it is there
#   --dry_run  prints the commands, one on a line, as for a TPU that is not there yet, and runs none of them
# A TPU that was preempted (PREEMPTED, TERMINATED, SUSPENDED), or whose request failed, is deleted and created again.
# Environment variables:
#   TPU_NAME         its name, such as my-tpu
#   PROJECT, ZONE    where it is, such as my-project and us-west4-a
#   TPU_TYPE         such as v5litepod-8, which is one worker, or v5litepod-16, which is several
#   RUNTIME_VERSION  such as v2-alpha-tpuv5-lite
# and optional ones:
#   SPOT=1           a spot VM: cheaper, and can be preempted at any time
#   NETWORK, SUBNETWORK  where they are not the default ones
#   COMMIT           the commit to install (default: HEAD, and then nothing may be uncommitted, as it would be left out)
#   WORKER_SETUP     a command to run on each worker afterwards, such as one that mounts the storage where runs are kept: the
#                    disks of a TPU that was preempted are gone
#   POLL             seconds between looks at a TPU that is not ready (default: 30)

# shellcheck source=launch/tpu.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/tpu.sh"

queued=
for argument in "$@"; do
  case $argument in
    --queued) queued=1 ;;
    --dry_run) DRY_RUN=1 ;;
    *) fail "unknown argument $argument; usage: launch/setup_tpu.sh [--queued] [--dry_run]" ;;
  esac
done
place
machine
git -C "$ROOT" rev-parse --git-dir >/dev/null 2>&1 || fail "$ROOT is no git checkout: only what is committed is installed"
if [ -z "${COMMIT-}" ]; then
  [ -z "$(git -C "$ROOT" status --porcelain)" ] ||
    fail "there are uncommitted changes, which would not be installed: commit them, or choose a commit: COMMIT=HEAD"
fi
wanted=${COMMIT:-HEAD}
COMMIT=$(git -C "$ROOT" rev-parse --verify --quiet "$wanted^{commit}") || fail "no commit $wanted in $ROOT"

create_tpu() {
  local given=(--accelerator-type="$TPU_TYPE")
  [ "${SPOT:-0}" != 1 ] || given+=(--spot)
  [ -z "${NETWORK-}" ] || given+=(--network="$NETWORK")
  [ -z "${SUBNETWORK-}" ] || given+=(--subnetwork="$SUBNETWORK")
  if [ -n "$queued" ]; then
    run gcloud compute tpus queued-resources create "$TPU_NAME" --node-id="$TPU_NAME" "${PLACE[@]}" "${given[@]}" \
      --runtime-version="$RUNTIME_VERSION" --quiet
  else
    run gcloud compute tpus tpu-vm create "$TPU_NAME" "${PLACE[@]}" "${given[@]}" --version="$RUNTIME_VERSION" --quiet
  fi
}

created=
while [ "${STATE-}" != READY ]; do
  # What a dry run takes for granted: a TPU that is not there, and then is.
  if [ -n "$created" ]; then look READY; else look ABSENT; fi
  case "$STATE $created" in
    'READY '*) ;;
    'ABSENT ')
      [ -n "$DRY_RUN" ] || say "creating $TPU_NAME"
      create_tpu
      created=1
      ;;
    'PREEMPTED '* | 'TERMINATED '* | 'SUSPENDED '* | 'FAILED '*)
      [ -z "$created" ] || fail "$TPU_NAME was created, and is $STATE already: try again later"
      say "$TPU_NAME is $STATE: deleting it"
      delete_tpu
      ;;
    'STOPPED '* | 'HIDDEN '* | 'UNKNOWN '*)
      fail "$TPU_NAME is $STATE: start it with gcloud, or delete it with launch/run_tpu.sh --delete"
      ;;
    *)
      say "$TPU_NAME is $STATE: waiting"
      sleep "$POLL"
      ;;
  esac
done

[ -n "$DRY_RUN" ] || say "installing $COMMIT on all workers of $TPU_NAME"
archive=$ROOT/runs/$TPU_NAME.tar.gz
run mkdir -p "$ROOT/runs"
run git -C "$ROOT" archive --format=tar.gz --output="$archive" "$COMMIT"
run gcloud compute tpus tpu-vm scp "$archive" "$TPU_NAME:opql_jax.tar.gz" "${PLACE[@]}" --worker=all --quiet
run rm -f "$archive"
# The environment and the runs stay.
# shellcheck disable=SC2016
unpack='jobs=opql_jax_jobs
if [ -f $jobs/current ] && read -r job pid <$jobs/current && [ ! -f "$jobs/$job.code" ] && kill -0 "$pid" 2>/dev/null; then
  echo "job $job is running: launch/run_tpu.sh --stop ends it" >&2
  exit 1
fi
mkdir -p opql_jax && find opql_jax -mindepth 1 -maxdepth 1 ! -name .venv ! -name runs -exec rm -rf {} + &&
  tar -xzf opql_jax.tar.gz -C opql_jax'
run gcloud compute tpus tpu-vm ssh "$TPU_NAME" "${PLACE[@]}" --worker=all --quiet --command="$unpack"
on_workers all worker_install "$COMMIT"
[ -z "${WORKER_SETUP-}" ] ||
  run gcloud compute tpus tpu-vm ssh "$TPU_NAME" "${PLACE[@]}" --worker=all --quiet --command="$WORKER_SETUP"
[ -n "$DRY_RUN" ] || say "$TPU_NAME is ready: launch/run_tpu.sh BINARY [FLAG...]"
