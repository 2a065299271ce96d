# Installation: programs, libraries, module, headers, documents, pkg-config file. Everything is
# found relative to everything else, so the tree may be moved and DESTDIR works.

set(CMAKE_INSTALL_LIBDIR lib CACHE PATH "Libraries, relative to the prefix")
include(GNUInstallDirs)

# As flags and not as Requires.private, whose include folders pkg-config hands to everybody: no
# public header needs one of them.
set(gr_libs_private "")
foreach(name JANSSON PROTOBUF_C PNG JPEG ZLIB YAML)
  list(APPEND gr_libs_private ${${name}_STATIC_LDFLAGS})
endforeach()
list(REMOVE_DUPLICATES gr_libs_private)
list(APPEND gr_libs_private -lpthread -lm -ldl)
if(GR_HAVE_ONEDNN)
  list(PREPEND gr_libs_private -ldnnl)
endif()
list(JOIN gr_libs_private " " gr_libs_private)
configure_file(cmake/gradus.pc.in ${CMAKE_BINARY_DIR}/gradus.pc @ONLY)

install(TARGETS gradus gradus_static)
if(GR_APPS)
  install(TARGETS ${GR_APPS})
endif()
if(TARGET gradus-cuda)
  install(TARGETS gradus-cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET gradus-mpi)
  install(TARGETS gradus-mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/gradus DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h")
install(FILES ${CMAKE_BINARY_DIR}/gradus.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The programs' help names files in docs/.
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.yaml")
