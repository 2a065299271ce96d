# Programs: one per file in app/, with all rooms inside, so that they start fast and
# need no library path. They export the public functions for the CUDA module. The launchers
# have only their own room in them: they load nothing, start in a millisecond and stay small.

function(gr_program target file folder)
  add_executable(${target} ${file})
  set_target_properties(${target} PROPERTIES ENABLE_EXPORTS ON
                        RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  target_link_libraries(${target} PRIVATE gr_flags gr_host)
endfunction()

set(GR_APPS)
file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/app/*.c)
foreach(file ${files})
  get_filename_component(name ${file} NAME_WE)
  # The library's target is called gradus as well.
  set(target app_${name})
  if(name MATCHES "^gradrun")
    add_executable(${target} ${file})
    target_link_libraries(${target} PRIVATE gr_flags gr_launch)
    set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  else()
    gr_program(${target} ${file} bin)
  endif()
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  list(APPEND GR_APPS ${target})
endforeach()

add_custom_target(apps DEPENDS ${GR_APPS})
if(TARGET gradus-mpi)
  add_dependencies(apps gradus-mpi)
endif()
if(TARGET gradus-cuda)
  add_dependencies(apps gradus-cuda)
endif()
