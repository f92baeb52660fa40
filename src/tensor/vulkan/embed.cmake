# SPDX-License-Identifier: MIT
# cmake -DIN="a.spv;b.spv" -DOUT=shaders.c -P embed.cmake: SPIR-V modules as arrays of C, named by their files, and a list of all.
set(list "")
file(WRITE "${OUT}" "/* SPDX-License-Identifier: MIT */\n#include \"tensor/vulkan/internal.h\"\n")
string(REPLACE "|" ";" IN "${IN}")
foreach(file IN LISTS IN)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" hex HEX)
  string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1u," words "${hex}")
  string(REGEX REPLACE "((0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,)(0x[0-9a-f]+u,))"
         "\\1\n" words "${words}")
  file(APPEND "${OUT}" "\nstatic const uint32_t ${name}[] = {\n${words}\n};\n")
  string(APPEND list "    {\"${name}\", ${name}, sizeof ${name}},\n")
endforeach()
file(APPEND "${OUT}" "\nconst esi_vk_module esi_vk_modules[] = {\n${list}    {NULL, NULL, 0},\n};\n")
