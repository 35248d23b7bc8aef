#!/bin/sh
# EpilogSlurmctld: takes a job that ends off fairspine's controller. See README.md.
# shellcheck source=fairspine.sh
. "$(dirname "$0")/fairspine.sh"

remove() {
  read_settings || return
  if ask jobs delete "$job"; then
    log "$job removed"
    return
  fi
  # Most jobs were never pushed.
  case $said in
    *"no job is named"*) ;;
    *) log "$job is not removed: $said" ;;
  esac
}

remove
exit 0
