# What `cmake --install` puts where: command, library, headers, embedded model, pkg-config file and CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS espalier EXPORT espalier-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/espalier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY models/tiny/ DESTINATION ${CMAKE_INSTALL_DATADIR}/espalier/tiny
  PATTERN "expected" EXCLUDE PATTERN "renders" EXCLUDE PATTERN "*_gt.ply" EXCLUDE)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A static library's users must link what it uses; a shared one's need not know.
set(ESPALIER_PC_PACKAGES "jansson")
if(ESPALIER_IMAGES)
  string(APPEND ESPALIER_PC_PACKAGES " libpng libjpeg libwebp libwebpdemux")
endif()
if(ESPALIER_ARCHIVES)
  string(APPEND ESPALIER_PC_PACKAGES " zlib liblzma libzstd")
endif()
if(ESPALIER_MESH_IMPORT)
  string(APPEND ESPALIER_PC_PACKAGES " assimp")
endif()
if(ESPALIER_SHARED)
  set(ESPALIER_PC_REQUIRES "Requires.private: ${ESPALIER_PC_PACKAGES}")
  set(ESPALIER_PC_LIBS_MORE "")
else()
  set(ESPALIER_PC_REQUIRES "Requires: ${ESPALIER_PC_PACKAGES}")
  set(ESPALIER_PC_LIBS_MORE " -lm -pthread")
endif()
configure_file(cmake/espalier.pc.in ${CMAKE_BINARY_DIR}/espalier.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/espalier.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(EXPORT espalier-targets NAMESPACE espalier:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
configure_package_config_file(cmake/espalier-config.cmake.in ${CMAKE_BINARY_DIR}/espalier-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/espalier-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/espalier-config.cmake ${CMAKE_BINARY_DIR}/espalier-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
