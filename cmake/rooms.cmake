# One static library per room. layers.txt says which rooms there are and which of them
# each may use; the linker is thereby a second witness of the layers.

# The files of a room that belong to the CUDA module instead.
set(GR_MODULE_FOLDERS backend/cuda comm/nccl comm/ipc)
set(GR_MPI_FOLDER comm/mpi) # of the MPI module

# gr_sources(out folder): the C files under src/<folder> that this build compiles.
function(gr_sources out folder)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.c)
  foreach(f ${GR_MODULE_FOLDERS} ${GR_MPI_FOLDER})
    list(FILTER files EXCLUDE REGEX "/src/${f}/")
  endforeach()
  list(FILTER files EXCLUDE REGEX "_(cuda|cublaslt|cudnn)\\.c$") # of the CUDA module
  foreach(major 2 3)
    if(NOT GR_ONEDNN_MAJOR EQUAL major)
      list(FILTER files EXCLUDE REGEX "_onednn${major}\\.c$")
    endif()
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()

# gr_room(name USES room...): library gr_<name>. A room without sources is an interface
# library, so that the rest can name it.
function(gr_room name)
  cmake_parse_arguments(R "" "" "USES" ${ARGN})
  gr_sources(files ${name})
  list(TRANSFORM R_USES PREPEND gr_)
  if(files)
    add_library(gr_${name} STATIC ${files})
    gr_isa_flags(${files})
    target_link_libraries(gr_${name} PRIVATE gr_flags PUBLIC ${R_USES} Threads::Threads m
                          ${CMAKE_DL_LIBS})
    set_property(GLOBAL APPEND PROPERTY GR_ROOM_OBJECTS $<TARGET_OBJECTS:gr_${name}>)
  else()
    add_library(gr_${name} INTERFACE)
    target_link_libraries(gr_${name} INTERFACE ${R_USES})
  endif()
  set_property(GLOBAL APPEND PROPERTY GR_ROOMS ${name})
endfunction()

# gr_room_links(name target...): libraries from outside that only this room uses.
function(gr_room_links name)
  get_target_property(type gr_${name} TYPE)
  if(NOT type STREQUAL INTERFACE_LIBRARY)
    target_link_libraries(gr_${name} PRIVATE ${ARGN})
  endif()
endfunction()

# gr_room_protos(name): src/<name>/*.proto become C in <build>/proto/<name>, which the room
# includes as "<name>/<file>.pb-c.h". The code is the generator's, so our warnings do not apply.
function(gr_room_protos name)
  set(folder ${CMAKE_BINARY_DIR}/proto/${name})
  file(MAKE_DIRECTORY ${folder})
  file(GLOB protos CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.proto)
  foreach(proto ${protos})
    get_filename_component(base ${proto} NAME_WE)
    set(made ${folder}/${base}.pb-c.c)
    add_custom_command(OUTPUT ${made} ${folder}/${base}.pb-c.h DEPENDS ${proto} VERBATIM
        COMMAND ${GR_PROTOC_C} --c_out=${folder} --proto_path=${CMAKE_SOURCE_DIR}/src/${name}
                ${proto})
    set_source_files_properties(${made} PROPERTIES COMPILE_OPTIONS -w)
    target_sources(gr_${name} PRIVATE ${made} ${folder}/${base}.pb-c.h)
  endforeach()
  target_include_directories(gr_${name} SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/proto)
endfunction()

set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/layers.txt)
file(STRINGS ${CMAKE_SOURCE_DIR}/layers.txt gr_lines REGEX "^[a-z]+:")
foreach(line ${gr_lines})
  string(REGEX MATCH "^([a-z]+):(.*)$" unused "${line}")
  set(room ${CMAKE_MATCH_1})
  separate_arguments(uses UNIX_COMMAND "${CMAKE_MATCH_2}")
  # Recipes see the public headers only; what stands behind those is train and below.
  list(TRANSFORM uses REPLACE "^public$" "train")
  gr_room(${room} USES ${uses})
endforeach()
get_property(GR_ROOMS GLOBAL PROPERTY GR_ROOMS)
get_property(GR_ROOM_OBJECTS GLOBAL PROPERTY GR_ROOM_OBJECTS)
list(TRANSFORM GR_ROOMS PREPEND gr_ OUTPUT_VARIABLE GR_ROOM_TARGETS)

set(GR_EXTERNAL PkgConfig::JANSSON PkgConfig::PROTOBUF_C PkgConfig::PNG PkgConfig::JPEG
    PkgConfig::ZLIB PkgConfig::YAML)
gr_room_protos(track)
gr_room_links(track PkgConfig::PROTOBUF_C PkgConfig::PNG PkgConfig::ZLIB)
gr_room_links(data PkgConfig::PNG PkgConfig::JPEG PkgConfig::ZLIB)
gr_room_links(ckpt PkgConfig::JANSSON)
gr_room_links(train PkgConfig::YAML)
gr_room_links(launch PkgConfig::JANSSON)
if(GR_HAVE_ONEDNN)
  gr_room_links(op gr_onednn)
  list(APPEND GR_EXTERNAL gr_onednn)
endif()
get_target_property(type gr_op TYPE)
if(NOT type STREQUAL INTERFACE_LIBRARY)
  target_compile_definitions(gr_op PRIVATE GR_HAVE_ONEDNN=${GR_HAVE_ONEDNN})
endif()
