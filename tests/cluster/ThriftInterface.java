import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.Map;

/** Prints what a server's own Thrift classes say of themselves: "struct number name type required", a field a line. */
public class ThriftInterface {
    public static void main(String[] names) throws Exception {
        for (String name : names) {
            Class<?> struct;
            try {
                struct = Class.forName("org.apache.cassandra.thrift." + name.replace('.', '$'));
            } catch (ClassNotFoundException absent) {
                System.out.println(name + " absent");
                continue;
            }
            if (struct.isEnum()) {
                for (Object constant : struct.getEnumConstants())
                    System.out.println(name + " " + struct.getMethod("getValue").invoke(constant) + " " + constant);
                continue;
            }
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) struct.getField("metaDataMap").get(null)).entrySet()) {
                Object key = entry.getKey(), told = entry.getValue();
                Object number = key.getClass().getMethod("getThriftFieldId").invoke(key);
                Field field = struct.getField((String) told.getClass().getField("fieldName").get(told));
                boolean required = told.getClass().getField("requirementType").getByte(told) == 1;
                System.out.println(
                    name + " " + number + " " + field.getName() + " " + type(field.getGenericType()) + " " + required);
            }
        }
    }

    static String type(Type type) {
        if (type instanceof ParameterizedType) {
            Type[] of = ((ParameterizedType) type).getActualTypeArguments();
            return of.length == 1 ? "list<" + type(of[0]) + ">" : "map<" + type(of[0]) + "," + type(of[1]) + ">";
        }
        Class<?> plain = (Class<?>) type;
        if (plain == ByteBuffer.class) return "binary";
        if (plain == String.class) return "string";
        if (plain == int.class) return "i32";
        if (plain == long.class) return "i64";
        if (plain == boolean.class) return "bool";
        return plain.getSimpleName();
    }
}
