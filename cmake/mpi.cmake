# The MPI module, libgradus-mpi: a transport over the MPI that is installed, loaded when asked
# for. As the CUDA module it takes our functions from the program that loads it. Without MPI's
# headers it is left out.

option(GR_MPI "Build the MPI module where MPI is found" ON)
if(NOT GR_MPI OR GR_SANITIZE)
  return()
endif()
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  message(STATUS "MPI: not found; the MPI module is left out")
  return()
endif()
message(STATUS "MPI: ${MPI_C_LIB_VERSION_STRING}${MPI_C_VERSION}")
file(GLOB gr_mpi_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${GR_MPI_FOLDER}/*.c)
add_library(gradus-mpi MODULE ${gr_mpi_sources})
target_include_directories(gradus-mpi SYSTEM PRIVATE ${MPI_C_INCLUDE_DIRS})
target_link_libraries(gradus-mpi PRIVATE gr_flags ${MPI_C_LIBRARIES})
