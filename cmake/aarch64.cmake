# Toolchain file: cross-compile for 64-bit ARM on Debian and run the tests under qemu-user.
#   apt: gcc-aarch64-linux-gnu qemu-user libjansson-dev:arm64 libcmocka-dev:arm64 (after dpkg --add-architecture arm64)
#   PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig cmake --toolchain cmake/aarch64.cmake -DESPALIER_IMAGES=OFF ...
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
