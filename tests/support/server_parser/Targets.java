// Prints the keyspaces that a release's own parser finds in CQL statements. Standard input: a statement a line, in base64.
// Standard output, a line each: "no" for a statement that the server would refuse, else "yes", the name of the parsed
// statement's class, and the keyspaces in it, between tabs; "-" among them is a name without its keyspace, and "type k" the keyspace of a user type.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Base64;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;

public final class Targets {
    private static final String CQL = "org.apache.cassandra.cql3.";

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line; (line = in.readLine()) != null; ) {
            String statement = new String(Base64.getDecoder().decode(line), StandardCharsets.UTF_8);
            Object parsed;
            try {
                parsed = parse(statement);
            } catch (InvocationTargetException refused) {
                if (refused.getCause() instanceof LinkageError) throw refused;
                parsed = null;
            }
            out.println(parsed == null ? "no" : "yes\t" + parsed.getClass().getName() + "\t" + String.join("\t", keyspaces(parsed)));
        }
        out.flush();
        System.exit(0);  // some releases start threads when their classes are loaded
    }

    /** The release's own lexer and parser, with the check for errors that its QueryProcessor makes. */
    private static Object parse(String statement) throws Exception {
        Class<?> streamClass = Class.forName("org.antlr.runtime.ANTLRStringStream");
        Class<?> charStream = Class.forName("org.antlr.runtime.CharStream");
        Class<?> tokenSource = Class.forName("org.antlr.runtime.TokenSource");
        Class<?> tokenStream = Class.forName("org.antlr.runtime.TokenStream");
        Object stream = streamClass.getConstructor(String.class).newInstance(statement);
        Class<?> lexerClass = Class.forName(CQL + "CqlLexer");
        Class<?> parserClass = Class.forName(CQL + "CqlParser");
        Object lexer = lexerClass.getConstructor(charStream).newInstance(stream);
        Object tokens = Class.forName("org.antlr.runtime.CommonTokenStream").getConstructor(tokenSource).newInstance(lexer);
        Object parser = parserClass.getConstructor(tokenStream).newInstance(tokens);
        AtomicInteger errors = listener(lexer, parser);
        Object parsed = parserClass.getMethod("query").invoke(parser);
        if (errors != null) {
            if (errors.get() > 0) return null;
        } else {
            call(lexer, "throwLastRecognitionError");
            call(parser, "throwLastRecognitionError");
        }
        return parsed;
    }

    /** Counts the syntax errors that lexer and parser tell of; null in releases that keep the last one themselves. */
    private static AtomicInteger listener(Object lexer, Object parser) throws Exception {
        Class<?> kind;
        try {
            kind = Class.forName(CQL + "ErrorListener");
        } catch (ClassNotFoundException older) {
            return null;
        }
        AtomicInteger errors = new AtomicInteger();
        Object listener = Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, (self, method, arguments) -> {
            if (method.getName().equals("syntaxError")) errors.incrementAndGet();
            return null;
        });
        for (Object one : new Object[] {lexer, parser}) one.getClass().getMethod("addErrorListener", kind).invoke(one, listener);
        return errors;
    }

    private static void call(Object object, String name) throws Exception {
        Method method = null;
        for (Class<?> type = object.getClass(); method == null; type = type.getSuperclass()) {
            for (Method each : type.getDeclaredMethods()) if (each.getName().equals(name) && each.getParameterCount() == 0) method = each;
        }
        method.setAccessible(true);
        method.invoke(object);
    }

    /** Every keyspace in the parsed statement: in names of its objects, and in the fields of statements about keyspaces. */
    private static Set<String> keyspaces(Object parsed) throws IllegalAccessException {
        Set<String> found = new TreeSet<>();
        Set<Object> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        Deque<Object> waiting = new ArrayDeque<>();
        waiting.add(parsed);
        while (!waiting.isEmpty()) {
            Object each = waiting.pop();
            if (each == null || !seen.add(each)) continue;
            if (each instanceof Collection<?> many) many.forEach(one -> { if (one != null) waiting.add(one); });
            if (each instanceof Map<?, ?> map) { map.keySet().forEach(one -> { if (one != null) waiting.add(one); }); map.values().forEach(one -> { if (one != null) waiting.add(one); }); }
            if (each.getClass().isArray() && each instanceof Object[] many) for (Object one : many) if (one != null) waiting.add(one);
            if (!each.getClass().getName().startsWith("org.apache.cassandra.") || each instanceof Enum) continue;
            boolean isName = each.getClass().getSimpleName().matches("QualifiedName|CFName|IndexName|KeyspaceElementName");
            for (Class<?> type = each.getClass(); type != null && type != Object.class; type = type.getSuperclass()) {
                for (Field field : type.getDeclaredFields()) {
                    if (Modifier.isStatic(field.getModifiers()) || field.getType().isPrimitive()) continue;
                    field.setAccessible(true);
                    Object value = field.get(each);
                    if (isKeyspace(type, field)) {
                        // Arithmetic is parsed as calls of native functions.
                        if (type.getSimpleName().equals("FunctionName") && "system".equals(value)) continue;
                        if (value != null) found.add((type.getSimpleName().equals("UTName") ? "type " : "") + value);
                        else if (isName) found.add("-");
                    } else if (value != null) {
                        waiting.add(value);
                    }
                }
            }
        }
        return found;
    }

    private static boolean isKeyspace(Class<?> owner, Field field) {
        if (field.getType() != String.class) return false;
        String name = field.getName();
        return name.equals("ksName") || name.startsWith("keyspace") || (name.equals("name") && owner.getSimpleName().contains("KeyspaceStatement"));
    }
}
