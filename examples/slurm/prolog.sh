#!/bin/sh
# PrologSlurmctld: tells fairspine's controller of a job that begins, if there is a description of it. See README.md.
(
  # shellcheck source=fairspine.sh
  . "$(dirname "$0")/fairspine.sh"

  description() {
    case ${SLURM_JOB_NAME:-} in
      '' | .* | *[!A-Za-z0-9._-]*) return 1 ;;
    esac
    for suffix in yaml yml json; do
      file=$FAIRSPINE_JOBS/$SLURM_JOB_NAME.$suffix
      [ -f "$file" ] && return 0
    done
    return 1
  }

  push() {
    if [ -z "${FAIRSPINE_FABRIC:-}" ]; then
      ask push "$file" --name "$job" --servers "$nodes"
      return
    fi
    # The order of ranks is chosen, as the job's own script does with the same command: same input, same order.
    placed=$(mktemp --suffix=.json) || return
    trap 'rm -f "$placed"' EXIT
    ask job place "$file" --fabric "$FAIRSPINE_FABRIC" --servers "$nodes" --out "$placed" \
      && ask push "$placed" --name "$job"
  }

  read_settings || exit
  # Most jobs have none, and need none.
  description || exit
  nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-}" | paste -s -d , -)
  if [ -z "$nodes" ]; then
    log "scontrol does not say which nodes ${SLURM_JOB_NODELIST:-} are"
  elif push; then
    log "$file pushed as $job"
  else
    log "$file is not pushed: $said"
  fi
)
# Whatever became of it: the job runs.
exit 0
