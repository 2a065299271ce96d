# All rooms in one: libgradus.so, libgradus.a, and gr_host, what a program links to that
# may load the CUDA module. Such a program carries every room whole and exports the
# public functions, because the module takes them from the program that loads it.

if(NOT GR_ROOM_OBJECTS)
  file(WRITE ${CMAKE_BINARY_DIR}/empty.c "extern int gr_empty;\n")
  set(GR_ROOM_OBJECTS ${CMAKE_BINARY_DIR}/empty.c)
endif()

add_library(gradus SHARED ${GR_ROOM_OBJECTS})
set_target_properties(gradus PROPERTIES LINKER_LANGUAGE C VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR})
target_include_directories(gradus PUBLIC ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(gradus PRIVATE ${GR_EXTERNAL} Threads::Threads m ${CMAKE_DL_LIBS})
target_link_options(gradus PRIVATE -Wl,--as-needed)

add_library(gradus_static STATIC ${GR_ROOM_OBJECTS})
set_target_properties(gradus_static PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME gradus)
target_link_libraries(gradus_static INTERFACE ${GR_EXTERNAL} Threads::Threads m ${CMAKE_DL_LIBS})

add_library(gr_host INTERFACE)
target_link_libraries(gr_host INTERFACE "$<LINK_LIBRARY:WHOLE_ARCHIVE,gradus_static>")
target_link_options(gr_host INTERFACE -Wl,--as-needed)
