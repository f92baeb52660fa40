# Toolchain file: cross-compile for 64-bit ARM on Debian and run the tests under qemu-user.
#   apt: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libjansson-dev:arm64 libcmocka-dev:arm64 (after dpkg --add-architecture arm64)
#   PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig cmake --toolchain cmake/aarch64.cmake -DESPALIER_IMAGES=OFF ...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
# No -L: libjansson-dev:arm64 brings libc6:arm64, and its loader finds its own libraries. With "-L /usr/aarch64-linux-gnu" the loader of the
# cross package meets the C library of libc6:arm64, another build, and the first pthread_create() never returns.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
