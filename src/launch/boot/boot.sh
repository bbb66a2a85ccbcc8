set -u
umask 077

# Ends the machine. Where a shutdown does not end what it costs, as on Google Cloud, and on a stand-in, the launcher says how.
finish() {
  if [ -n "${GPUPLAN_END_MACHINE:-}" ]; then $GPUPLAN_END_MACHINE; else shutdown -P now; fi
}

# Ends first what would start another machine in its place, where a group of the cloud does: else the run would never end.
finish_for_good() {
  if [ -n "${GPUPLAN_END_GROUP:-}" ]; then
    $GPUPLAN_END_GROUP || echo "gpuplan: the group cannot be ended, and starts another machine" >&2
  fi
  finish
}

# A reboot forgets a shutdown that was scheduled, and runs no boot script again. A timer of systemd outlives it, and goes off at once
# where its time has passed meanwhile.
keep_end() {
  units=$root/etc/systemd/system
  [ -z "${GPUPLAN_END_MACHINE:-}${GPUPLAN_MACHINE_FOLDER:-}" ] && [ -d "$units" ] && [ -n "${ends_at:-}" ] || return 0
  printf '[Unit]\nDescription=gpuplan ends this machine\n\n[Service]\nType=oneshot\nExecStart=/bin/sh -c "shutdown -P now"\n' \
    >"$units/gpuplan-end.service"
  printf '[Unit]\nDescription=gpuplan ends this machine\n\n[Timer]\nOnCalendar=%s\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n' \
    "$(date -u -d "@$ends_at" '+%Y-%m-%d %H:%M:%S UTC')" >"$units/gpuplan-end.timer"
  { systemctl daemon-reload && systemctl enable gpuplan-end.timer && systemctl restart gpuplan-end.timer; } >&2 ||
    echo "gpuplan: the end of this machine does not survive a reboot" >&2
}

# hold_lease SECONDS: the first term of this machine's lease. Its agent moves the end as it renews it; an agent that hangs, or has deleted the file,
# does not. Counted from the start of the machine, so no clock that is set changes it. Beyond its share the machine ends by its other timers.
hold_lease() {
  echo $(($(cut -d . -f 1 /proc/uptime) + $1)) >lease-ends
  (
    while [ "$(cut -d . -f 1 /proc/uptime)" -lt "$(cat "$place/lease-ends")" ]; do sleep 30; done
    finish
  ) >/dev/null 2>&1 &
  lease_timer=$!
}

# Nothing that goes wrong here may leave a machine that idles.
fail() {
  echo "gpuplan: $1" >&2
  finish_for_good
  exit 1
}

google() {
  curl -fsS -H 'Metadata-Flavor: Google' "http://${GCE_METADATA_HOST:-metadata.google.internal}/computeMetadata/v1/$1"
}

# Its token goes to curl as a line of standard input, and stands in no list of processes.
google_curl() {
  google instance/service-accounts/default/token |
    sed -n 's/.*"access_token" *: *"\([^"]*\)".*/Authorization: Bearer \1/p' | curl -fsSL -H @- "$1"
}

# Writes a file, an address, or an address that wants the machine's own identity.
get() {
  case $1 in
    s3://*) aws s3 cp --only-show-errors "$1" - ;;
    identified:*) google_curl "${1#identified:}" ;;
    http://* | https://*) curl -fsSL "$1" ;;
    *) cat "$1" ;;
  esac
}

# fetch FILE SHA256 WHERE
fetch() {
  tries=1
  until get "$3" >"$1.part" && echo "$2  $1.part" | sha256sum -c --status; do
    [ $tries -lt 6 ] || fail "$1 cannot be fetched"
    sleep $((tries * 2))
    tries=$((tries + 1))
  done
  mv "$1.part" "$1"
}

secret() {
  case $cloud in
    aws) aws secretsmanager get-secret-value --secret-id "$1" --query SecretString --output text ;;
    gcp)
      google_curl "https://secretmanager.googleapis.com/v1/projects/$(google project/project-id)/secrets/$1/versions/latest:access" |
        sed -n 's/.*"data" *: *"\([^"]*\)".*/\1/p' | base64 -d
      ;;
    *) cat "${GPUPLAN_SECRETS:-/nowhere}/$1" ;;
  esac
}

# keep NAME VALUE: a variable of the job, in the file that its shell reads first and deletes, and no variable of this script. Neither
# name nor value is ever an argument of a program, which everybody on a machine can read, or part of what a container engine shows.
keep() {
  printf "export %s='%s'\n" "$1" "$(printf %s "$2" | sed "s/'/'\\\\''/g")" >>environment
}

# What is wrong with the job itself is wrong on every machine: the agent says it in the log of the run, which has failed by that.
reject() {
  echo "gpuplan: $1" | tee rejected >&2
  cd work
  # shellcheck disable=SC2086
  "$agent" agent --store "$store" --hand-off ../hand-off.json ${GPUPLAN_AGENT_OPTIONS:-} -- sh -c 'cat "$1"; exit 126' sh "$place/rejected"
  finish_for_good
  exit 1
}

# take_secret VARIABLE NAME: what is wrong or empty here is so on every machine. The identity of a new machine may take a moment.
take_secret() {
  tries=1
  until value=$(secret "$2" 2>secret.log) && [ -n "$value" ]; do
    [ $tries -lt 4 ] || reject "the secret $2 is empty or cannot be read: $(tail -n 3 secret.log)"
    sleep $((tries * 2))
    tries=$((tries + 1))
  done
  keep "$1" "$value"
  value=
}

# Local disks that nobody has formatted, as images other than AWS's deep learning ones leave them, become one. A disk with anything
# on it is left alone.
join_local_disks() {
  found=$(for link in "$root"/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_* "$root"/dev/disk/by-id/google-local-*ssd-*; do
    [ ! -e "$link" ] || readlink -f "$link"
  done | sort -u)
  set --
  for disk in $found; do
    [ "$(lsblk -nro TYPE,FSTYPE,MOUNTPOINT "$disk" | tr -d ' ')" != disk ] || set -- "$@" "$disk"
  done
  [ $# -gt 0 ] || return 0
  volume=$1
  if [ $# -gt 1 ]; then
    if mdadm --create /dev/md0 --level=0 --raid-devices=$# --run "$@" >&2; then
      volume=/dev/md0
    else
      echo "gpuplan: $# local disks cannot be joined; one of them is used" >&2
    fi
  fi
  mkdir -p "$root/mnt/disks/ssd"
  mkfs.ext4 -q -F -m 0 -E nodiscard "$volume" >&2 && mount -o noatime "$volume" "$root/mnt/disks/ssd" && return
  echo "gpuplan: the local disks cannot be used" >&2
  rmdir "$root/mnt/disks/ssd"
}

# Free KiB of the disk of a folder.
room() {
  df -Pk "$1" | tail -n 1 | tr -s ' ' | cut -d ' ' -f 4
}

# Where the data goes: to the disk with the most room.
choose_data_folder() {
  data=$place/data
  if [ -z "${GPUPLAN_MACHINE_FOLDER:-}" ] && [ "$(room "$root/var/lib")" -gt "$(room "$place")" ]; then
    data=$root/var/lib/gpuplan/data
  fi
  mkdir -p "$data" || fail "$data cannot be made"
  keep GPUPLAN_DATA_DIR "$data"
}

# mount_data ADDRESS: the bucket as a folder that is read over the network; nothing is copied.
mount_data() {
  data=$place/data
  bucket=${1#*://}
  prefix=${bucket#"${bucket%%/*}"}
  bucket=${bucket%%/*} prefix=${prefix#/}
  prefix=${prefix%/}
  address=$1
  case $1 in
    s3://*) set -- mount-s3 --read-only ${prefix:+--prefix} ${prefix:+"$prefix/"} "$bucket" "$data" ;;
    gs://*) set -- gcsfuse -o ro --implicit-dirs ${prefix:+--only-dir} ${prefix:+"$prefix"} "$bucket" "$data" ;;
    *) set -- ln -s "${1#file://}" "$data" ;;
  esac
  command -v "$1" >/dev/null || reject "the image of this machine has no $1, which mounts $address: take an image that has it, or have \
the data copied (no storage = \"object-store\" in [data])"
  [ "$1" = ln ] || mkdir -p "$data"
  "$@" >mount.log 2>&1 || reject "$address cannot be mounted: $(tail -n 3 mount.log)"
  echo "gpuplan: $address is mounted with $1; every pass reads it again" >&2
  keep GPUPLAN_DATA_DIR "$data"
}

# log_in SECRET: without one, by the identity of the machine where the registry is one of its own cloud. The password goes from one program to
# the next, and is an argument of none.
log_in() {
  case $1:$registry in
    :*.amazonaws.com*)
      region=${registry#*.ecr.}
      aws ecr get-login-password --region "${region%%.*}" | $engine login --username AWS --password-stdin "$registry"
      ;;
    :*)
      google instance/service-accounts/default/token | sed -n 's/.*"access_token" *: *"\([^"]*\)".*/\1/p' |
        $engine login --username oauth2accesstoken --password-stdin "$registry"
      ;;
    *)
      value=$(secret "$1")
      case $value in
        ?*:?*) printf %s "${value#*:}" | $engine login --username "${value%%:*}" --password-stdin "$registry" ;;
        *) echo "the secret $1 cannot be read, or is not USER:PASSWORD" && false ;;
      esac
      ;;
  esac
}

# sign_in IMAGE SECRET: to the registry of the image. The engine writes down the password that it was given: in a folder that is gone once the image
# is here, and before anything of the job runs.
sign_in() {
  registry=${1%%/*}
  # As docker reads a name.
  case $registry in "$1") registry=docker.io ;; *.* | *:* | localhost) ;; *) registry=docker.io ;; esac
  if [ -z "$2" ]; then
    case $cloud:$registry in
      aws:*.dkr.ecr.*.amazonaws.com* | gcp:*.pkg.dev | gcp:gcr.io | gcp:*.gcr.io) ;;
      *) return 0 ;;
    esac
  fi
  export DOCKER_CONFIG="$place/registry" REGISTRY_AUTH_FILE="$place/registry/config.json"
  mkdir -p registry
  tries=1
  until log_in "$2" >login.log 2>&1 </dev/null; do
    value=
    [ $tries -lt 4 ] || { sign_out && reject "$registry does not let this machine in: $(tail -n 3 login.log)"; }
    sleep $((tries * 2))
    tries=$((tries + 1))
  done
  value=
  echo "gpuplan: signed in to $registry" >&2
}

sign_out() {
  [ ! -d registry ] || unset DOCKER_CONFIG REGISTRY_AUTH_FILE
  rm -rf registry
}

# pull IMAGE SECRET
pull() {
  for engine in docker podman none; do command -v $engine >/dev/null && break; done
  [ $engine != none ] || reject "the image of this machine has no docker and no podman, so the job cannot run in $1"
  sign_in "$1" "${2:-}"
  echo "gpuplan: pulling $1 with $engine" >&2
  tries=1
  until $engine pull --quiet "$1" >pull.log 2>&1 </dev/null; do
    if [ $tries -ge 6 ] || grep -qiE 'not found|manifest unknown|denied|unauthorized|invalid reference' pull.log; then
      sign_out
      reject "the image $1 cannot be pulled: $(tail -n 3 pull.log)"
    fi
    sleep $((tries * 5))
    tries=$((tries + 1))
  done
  sign_out
  echo "gpuplan: $1 is here" >&2
  # The agent works inside: what it is told by its surroundings, and the certificates of the machine for images that have none.
  for name in GPUPLAN_AGENT_OPTIONS GPUPLAN_MACHINE_FOLDER AWS_ENDPOINT_URL AWS_EC2_METADATA_SERVICE_ENDPOINT AWS_METADATA_ENDPOINT \
    GCE_METADATA_HOST GOOGLE_BASE_URL; do
    eval "value=\${$name:-}"
    [ -z "$value" ] || keep $name "$value"
  done
  for file in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
    [ ! -r $file ] || cp $file certificates.crt
  done
}

# run_in IMAGE: with the GPUs, the network and the shared memory of the machine, in the same folders. It is the agent that has
# number 1 in there, so a signal to the engine, which passes it on, is a signal to the agent.
run_in() {
  gpus='--gpus all'
  [ $engine = docker ] || gpus='--device nvidia.com/gpu=all'
  image=$1
  set -- --volume "$place:$place" --workdir "$place/work" --entrypoint /bin/sh
  [ "${agent#"$place"/}" != "$agent" ] || set -- "$@" --volume "$agent:$agent:ro"
  [ -z "${data:-}" ] || [ "${data#"$place"/}" != "$data" ] || set -- "$@" --volume "${data%/*}:${data%/*}"
  [ ! -d /dev/infiniband ] || set -- "$@" --device /dev/infiniband
  # shellcheck disable=SC2086
  exec $engine run --rm --name "$name_of_container" $gpus --network host --ipc host --ulimit memlock=-1 --ulimit stack=67108864 \
    --stop-timeout 120 --user 0:0 "$@" "$image" ../start.sh
}

# await_next TOKEN SECONDS STORE RUN: the machine stays for the next run, whose boot script comes through the store, and never beyond its own
# end; an agent that hangs meanwhile keeps it no longer either. Of the run before neither files nor processes are left.
await_next() {
  left=$((ends_at - $(date +%s) - 60))
  [ "$left" -gt "$2" ] || set -- "$1" "$left" "$3" "$4"
  [ "$2" -gt 0 ] || return 0
  [ -z "${lease_timer:-}" ] || echo $(($(cut -d . -f 1 /proc/uptime) + $2 + 60)) >"$place/lease-ends"
  echo "gpuplan: this machine waits $2 s for the next run" >&2
  cd "$place" || return 0
  "$agent" agent --store "$3" --run "$4" --await-next "$1" --within "$2s" --into next.sh -- true || return 0
  [ -z "${lease_timer:-}" ] || kill "$lease_timer"
  for process in /proc/[0-9]*; do
    [ -r "$process/environ" ] || continue
    of=$(tr '\0' '\n' 2>/dev/null <"$process/environ") || continue
    echo "$of" | grep -q '^GPUPLAN_RUN_ID=' || continue
    [ -z "${GPUPLAN_MACHINE_FOLDER:-}" ] || echo "$of" | grep -qxF "GPUPLAN_MACHINE_FOLDER=$GPUPLAN_MACHINE_FOLDER" || continue
    kill -9 "${process#/proc/}" 2>/dev/null
  done
  [ -z "${data:-}" ] || rm -rf "$data"
  for file in * .*; do
    case $file in . | .. | next.sh) continue ;; esac
    grep -qxF -e "$file" own-files || rm -rf -- "$file"
  done
  echo "gpuplan: the next run has this machine" >&2
  exec sh next.sh
}

# Local disks are fast and large where there are any: AWS's deep learning images join them at the first of these.
root=${GPUPLAN_MACHINE_ROOT:-}
keep_end
place=${GPUPLAN_MACHINE_FOLDER:-}
if [ -z "$place" ]; then
  [ -d "$root/opt/dlami/nvme" ] || join_local_disks
  for place in "$root/opt/dlami/nvme" "$root/mnt/disks/ssd" "$root/var/lib"; do [ -d "$place" ] && break; done
  place=$place/gpuplan
fi
mkdir -p "$place" && cd "$place" || fail "$place cannot be made"
place=$(pwd)
# What lies here before any run is the machine's own, and stays for the next one.
[ -e own-files ] || ls -A >own-files
mkdir -p work || fail "$place/work cannot be made"
: >environment
