#!/usr/bin/env bash
# Creates a Cloud TPU VM, or uses the one of that name, and installs this checkout on all of its workers. Needs gcloud, signed
# in, and for a TPU of several workers its SSH key in an agent (ssh-add ~/.ssh/google_compute_engine).
# Running it again installs anew, and keeps the environment and ~/opql_jax/runs.
#   launch/setup_tpu.sh [--queued] [--dry_run]
#   --queued   asks for the TPU as a queued resource of the same name, and waits until it is there
#   --dry_run  prints the commands, one on a line, as for a TPU that is not there yet, and runs none of them
# A TPU that was preempted (PREEMPTED, TERMINATED, SUSPENDED), or whose request failed, is deleted and created again.
# Environment variables, of which only the first five have to be set:
#   TPU_NAME, PROJECT, ZONE  its name and where it is, such as my-tpu, my-project and us-west4-a
#   TPU_TYPE, RUNTIME_VERSION  such as v5litepod-8 (one worker) or v5litepod-16 (several), and v2-alpha-tpuv5-lite
#   SPOT=1           a spot VM: cheaper, and can be preempted at any time
#   NETWORK, SUBNETWORK  where they are not the default ones
#   CREATE_FLAGS     further flags of gcloud's create, such as '--internal-ips --reserved --service-account=NAME --labels=team=kb'
#   CONNECT_FLAGS    further flags of gcloud's ssh and scp, such as --internal-ip or --tunnel-through-iap
#   SLICES           how many TPUs of that type, joined by the network: a queued resource, whose slices are TPU_NAME-0, ... (default: 1)
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
[ "$SLICES" -eq 1 ] || queued=1
[ -z "$CHANGES" ] || fail "there are uncommitted changes, which would be left out: commit them, or choose a commit: COMMIT=HEAD"

create_tpu() {
  local kind=(tpu-vm create "$TPU_NAME") version=--version options=("${PLACE[@]}" --accelerator-type="$TPU_TYPE")
  local nodes=(--node-id="$TPU_NAME")
  [ "$SLICES" -eq 1 ] || nodes=(--node-count="$SLICES" --node-prefix="$TPU_NAME")
  [ -z "$queued" ] || { kind=(queued-resources create "$TPU_NAME" "${nodes[@]}"); version=--runtime-version; }
  [ "${SPOT:-0}" != 1 ] || options+=(--spot)
  [ -z "${NETWORK-}" ] || options+=(--network="$NETWORK")
  [ -z "${SUBNETWORK-}" ] || options+=(--subnetwork="$SUBNETWORK")
  local more
  read -ra more <<<"${CREATE_FLAGS-}"
  run gcloud compute tpus "${kind[@]}" "${options[@]}" ${more[@]+"${more[@]}"} "$version=$RUNTIME_VERSION" --quiet
}

created=
look ABSENT
while [ "$STATE" != READY ]; do
  case $STATE$created in
    ABSENT)
      [ -n "$DRY_RUN" ] || say "creating $TPU_NAME"
      create_tpu
      created=' after its creation'
      ;;
    PREEMPTED | TERMINATED | SUSPENDED | FAILED) say "$TPU_NAME is $STATE: deleting it"; delete_tpu ;;
    PREEMPTED* | TERMINATED* | SUSPENDED* | FAILED*) fail "$TPU_NAME is $STATE$created: try again later" ;;
    STOPPED* | HIDDEN* | UNKNOWN*) fail "$TPU_NAME is $STATE: start it with gcloud, or launch/run_tpu.sh --delete deletes it" ;;
    *) say "$TPU_NAME is $STATE: waiting"; sleep "$POLL" ;;
  esac
  look READY
done

[ -n "$DRY_RUN" ] || say "installing $COMMIT on all workers of $TPU_NAME"
archive=$ROOT/runs/$TPU_NAME.tar.gz
run mkdir -p "$ROOT/runs"
run git -C "$ROOT" archive --format=tar.gz --output="$archive" "$COMMIT"
# The environment and the runs stay.
# shellcheck disable=SC2016
unpack='if [ "$(source opql_jax/launch/tpu.sh 2>/dev/null && worker_status)" = running ]; then
  echo "a job is running: launch/run_tpu.sh --stop ends it" >&2
  exit 1
fi
mkdir -p opql_jax && find opql_jax -mindepth 1 -maxdepth 1 ! -name .venv ! -name runs -exec rm -rf {} + &&
  tar -xzf opql_jax.tar.gz -C opql_jax'
for node in "${NODES[@]}"; do
  run gcloud compute tpus tpu-vm scp "$archive" "$node:opql_jax.tar.gz" "${PLACE[@]}" ${CONNECT[@]+"${CONNECT[@]}"} --worker=all --quiet
  on_node "$node" all --command="$unpack"
done
run rm -f "$archive"
on_workers all worker_install "$COMMIT"
for node in ${WORKER_SETUP:+"${NODES[@]}"}; do on_node "$node" all --command="$WORKER_SETUP"; done
[ -n "$DRY_RUN" ] || say "$TPU_NAME is ready: launch/run_tpu.sh BINARY [FLAG...]"
