# QUERN_HEADER_HASH: 64 bits over the plugin headers, so that a plugin built from other untagged headers is refused; also
# a compile definition of the target quern_plugin_api, if that is there already.
# 0ull with -DQUERN_ABI_RELEASE=ON: tagged headers carry no hash and are negotiated by minor.
# May be included from any folder. A changed or new header configures anew.
if(QUERN_ABI_RELEASE)
  set(QUERN_HEADER_HASH 0ull)
else()
  file(GLOB quern_abi_headers CONFIGURE_DEPENDS
       ${QUERN_PLUGIN_API_INCLUDE}/quern/*.h ${QUERN_PLUGIN_API_INCLUDE}/quern/*.def)
  if(NOT quern_abi_headers)
    message(FATAL_ERROR "no plugin header was found below ${QUERN_PLUGIN_API_INCLUDE}/quern")
  endif()
  list(SORT quern_abi_headers)
  set(quern_abi_sums "")
  foreach(header IN LISTS quern_abi_headers)
    file(SHA256 ${header} sum)
    get_filename_component(name ${header} NAME)
    string(APPEND quern_abi_sums "${name} ${sum}\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  endforeach()
  string(SHA256 quern_abi_sum "${quern_abi_sums}")
  string(SUBSTRING ${quern_abi_sum} 0 16 quern_abi_sum)
  set(QUERN_HEADER_HASH 0x${quern_abi_sum}ull)
endif()

if(TARGET quern_plugin_api)
  get_target_property(quern_abi_definitions quern_plugin_api INTERFACE_COMPILE_DEFINITIONS)
  if(NOT "QUERN_HEADER_HASH=${QUERN_HEADER_HASH}" IN_LIST quern_abi_definitions)
    target_compile_definitions(quern_plugin_api INTERFACE QUERN_HEADER_HASH=${QUERN_HEADER_HASH})
  endif()
endif()
