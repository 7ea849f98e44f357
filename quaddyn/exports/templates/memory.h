/* Memory of QD_NAME.h. Written by quaddyn QD_VERSION; do not edit. */
#ifndef QD_UPPER_MEMORY_H
#define QD_UPPER_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Memory of a robot. A copy has the same state. The members are for internal use. */
typedef struct {
    QD_MEMBERS
} QD_NAME;

#endif
