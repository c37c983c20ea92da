#pragma once
// What the shared libraries show: the declarations of headers that write `namespace TESSERA_API tessera`, and no
// others.

#if defined(__GNUC__)
#define TESSERA_API [[gnu::visibility("default")]]
#else
#define TESSERA_API
#endif
