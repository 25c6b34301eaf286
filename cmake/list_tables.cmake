# cmake -DOUT=tables.def -DROW=MACRO -DPATTERN=REGEX -DSOURCES="a.cpp;b.cpp" -P list_tables.cmake
# Writes a row MACRO(name) for each line of the sources that PATTERN matches; its first group is the name. The file is left alone where it
# would hold the same.
string(REPLACE "|" ";" SOURCES "${SOURCES}")
set(text "/* Made by cmake/list_tables.cmake from the sources that define them. */\n")
foreach(source IN LISTS SOURCES)
  file(STRINGS "${source}" lines REGEX "${PATTERN}")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "${PATTERN}.*" "\\1" name "${line}")
    string(APPEND text "${ROW}(${name})\n")
  endforeach()
endforeach()
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUT}" "${text}")
endif()
