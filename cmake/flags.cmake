# Compile flags of everything we build. Results must not depend on them: contraction off, no fast math, strict aliasing kept.
add_library(espalier_flags INTERFACE)
target_compile_options(espalier_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wundef -Wvla
  -Wformat=2)
target_compile_definitions(espalier_flags INTERFACE _GNU_SOURCE _FILE_OFFSET_BITS=64)
if(ESPALIER_WERROR)
  target_compile_options(espalier_flags INTERFACE -Werror)
endif()
if(ESPALIER_SANITIZE)
  target_compile_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g)
  target_link_options(espalier_flags INTERFACE -fsanitize=${ESPALIER_SANITIZE})
endif()
